import { defineJob } from 'millrace'
import type { Errand } from './orders.js'

/** What an order leads to. Where it is only written into an outbox, nothing runs. */
export const fulfil = fulfilBy(() => {
  throw new Error('chaos: no handler here')
})

export function fulfilBy(act: (id: string) => void) {
  return defineJob<Errand>({
    name: 'fulfil',
    retain: '1h',
    maxAttempts: 5,
    run: async ({ order }) => act(order),
  })
}

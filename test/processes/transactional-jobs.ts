/** Jobs that book an entry in the transaction in which they complete. */
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from 'millrace'
import { type Place, storeAt } from '../place.js'
import { entriesOf } from './entries.js'

/** The first attempt of such a booking never ends by itself. */
export const forever = -1

export interface Booking {
  readonly order: string
  /** How long the transaction is open. */
  readonly ms: number
}

export function bookMill(place: Place) {
  const entries = entriesOf(place)
  const book = defineJob({
    name: 'book',
    transactional: true,
    retain: '1h',
    maxCrashes: 1_000,
    timeout: '1m',
    idempotency: { key: ({ order }: Booking) => order, ttl: '10d' },
    run: async ({ order, ms }: Booking, { tx, attempt }) => {
      await entries.add(await tx(), order)
      process.send?.({ inside: order })
      await sleep(ms === forever ? (attempt === 1 ? 60_000 : 0) : ms)
      return order
    },
  })
  return { book, options: { store: storeAt(place), jobs: [book] } }
}

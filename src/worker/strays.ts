import type { Runtime } from '../client/runtime.js'
import { released } from '../core/lifecycle.js'
import type { Stray } from '../core/store.js'

/**
 * Gives back jobs that ran in this worker's name without its knowledge. Whether they had begun, and whether they had even
 * ended, nobody knows any more; so no attempt is spent, and nothing that a start took is given back.
 */
export async function giveBackStrays(
  { store, events }: Runtime,
  worker: string,
  strays: readonly Stray[],
): Promise<void> {
  if (strays.length === 0) return
  const settlements = strays.map(({ id, token }) => ({ id, token, outcome: released(), inserts: undefined }))
  const { settled } = await store.exchange({ worker, settlements, claim: undefined })
  strays.forEach(({ id, name, queue }, i) => {
    if (settled[i] !== 'lost') events.emit('stalled', { id, name, queue, worker })
  })
}

/** A handler blocks the event loop for two leases: its jobs run elsewhere, and what it brings back is refused. */
import { fault } from '../fault.js'
import { settings } from '../settings.js'

export const blockedLoop = fault('blocked-loop', 0, async (arena) => {
  const rounds = Math.max(2, Math.round(8 * arena.options.scale))
  await Promise.all([arena.startWorker(), arena.startWorker()])
  for (let round = 0; round < rounds; round++) {
    const sleepers = Array.from({ length: 12 }, () => ({ sleep: arena.random.integer(20, 300) }))
    await arena.enqueue([...sleepers, { block: settings.leaseMs * 2 + 100 }])
    await arena.waitUntil(async () => {
      const { pending, running } = await arena.counts()
      return pending + running === 0
    }, settings.drainLimitMs)
    arena.options.progress(`${round + 1} of ${rounds} blocks`)
  }
  return arena.judge({ injected: rounds, expectStale: true })
})

/** Workers under full load are killed, and the lanes still get their shares (I9). */
import { sleep } from '../arena.js'
import { checkLanes } from '../checker.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { settings } from '../settings.js'

const lanes = ['critical', 'high', 'default', 'low'] as const
const weights = [8, 4, 2, 1]
const workers = 2

export const lanesUnderLoad = fault('lanes', 0.3, async (arena) => {
  const enqueued = weights.map((weight) => weight * 100)
  for (const [lane, priority] of lanes.entries()) {
    const work = Array.from({ length: enqueued[lane] ?? 0 }, () => ({ sleep: arena.random.integer(2, 10) }))
    await arena.enqueue(work, { priority })
  }
  // Jobs held beyond the slots would start in an order that was decided earlier.
  const start = () => arena.startWorker({ prefetch: 0 })
  const fleet: Member[] = await Promise.all(Array.from({ length: workers }, start))
  while (arena.kills < arena.options.kills) {
    await sleep(arena.random.between(50, 200))
    await arena.kill(fleet.shift() as Member)
    fleet.push(await start())
  }
  return arena.judge({
    injected: arena.kills,
    inspect: ({ events }) => {
      const starts = events.filter((event) => event.e === 'start')
      const { concurrency } = settings
      for (const { invariant, text } of checkLanes(starts, enqueued, weights, { workers, concurrency })) {
        arena.accuse(invariant, text)
      }
      return undefined
    },
  })
})

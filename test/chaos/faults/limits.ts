/** Workers are killed while they hold permits: limits hold throughout, and the permits come back. */
import { sleep } from '../arena.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { limited, limits } from '../jobs.js'
import { checkLimits } from '../limits.js'
import { settings } from '../settings.js'

const keys = 5

export const killHoldingLimits = fault('holding-limits', 1, async (arena) => {
  const keyOf = new Map<string, string>()
  let wanted = true
  const feed = async () => {
    while (wanted) {
      for (let n = (await arena.counts()).pending; n < 30; n++) {
        const key = `key-${arena.random.integer(1, keys)}`
        const input = {
          key,
          tenant: `tenant-${arena.random.integer(1, 3)}`,
          sleep: arena.random.integer(20, 120),
        }
        const id = await arena.enqueueJob(limited, input)
        if (id !== undefined) keyOf.set(id, key)
      }
      await sleep(20)
    }
  }
  const feeding = feed()
  const workers: Member[] = await Promise.all([1, 2, 3].map(() => arena.startWorker()))
  while (arena.kills < arena.options.kills) {
    await sleep(arena.random.between(100, 400))
    await arena.kill(workers.shift() as Member)
    workers.push(await arena.startWorker())
  }
  wanted = false
  await feeding
  const given = await arena.waitUntil(async () => {
    const { pending, running } = await arena.counts()
    return pending + running === 0 && (await arena.mill.definition(limited).status()).running === 0
  }, settings.drainLimitMs)
  if (!given) arena.accuse('I8', 'permits of lost workers did not come back')
  return arena.judge({
    injected: arena.kills,
    inspect: ({ events }) => {
      for (const { invariant, text } of checkLimits(events, (id) => keyOf.get(id), limits)) {
        arena.accuse(invariant, text)
      }
      return `${keyOf.size} jobs under limits`
    },
  })
})

/** What only a Redis server does to its clients: it forgets scripts, ends connections, and has no memory left. */
import type { Redis } from 'ioredis'
import { type Arena, sleep } from '../arena.js'
import { fault } from '../fault.js'
import { askMaster, redisPlace } from '../redis-engine.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { roundsOf, startCrew } from './crew.js'

export const flushedScripts = fault(
  'script-flush',
  0,
  (arena) => again(arena, 60, (redis) => redis.script('FLUSH', 'SYNC')),
  ['redis'],
)

/** All connections at once, idle or at work; those that listen among them. */
export const killedClients = fault(
  'client-kill',
  0,
  (arena) => again(arena, 60, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
  ['redis'],
)

async function again(arena: Arena, full: number, harm: (redis: Redis) => Promise<unknown>): Promise<Row> {
  const rounds = roundsOf(arena, full)
  const place = redisPlace(arena.place)
  const crew = await startCrew(arena)
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(20, 300))
    await arena.heal(crew.members, async () => void (await askMaster(place, harm)))
    arena.options.progress(`${round + 1} of ${rounds} rounds`)
  }
  return crew.judge({ injected: rounds, repeats: true })
}

/**
 * For longer than a lease. Enqueues are refused with STORE_FULL, what is refused is not there at all, and work goes on in the
 * same processes when there is memory again.
 */
export const outOfMemory = fault(
  'out-of-memory',
  0,
  async (arena) => {
    const rounds = roundsOf(arena, 6)
    const place = redisPlace(arena.place)
    const limit = (bytes: number) => askMaster(place, (redis) => redis.config('SET', 'maxmemory', bytes))
    const crew = await startCrew(arena)
    let settled = 0
    for (let round = 0; round < rounds; round++) {
      await sleep(arena.random.between(300, 700))
      await limit(1_000_000)
      const refused = await arena.waitUntil(async () => !(await accepts(arena)), 5_000)
      if (!refused) arena.accuse('harness', 'no enqueue was refused without memory')
      const before = (await arena.counts()).completed
      await sleep(settings.leaseMs * 1.5)
      settled += (await arena.counts()).completed - before
      await arena.heal(crew.members, async () => void (await limit(0)))
      if (!(await accepts(arena))) arena.accuse('I13', 'enqueues are refused although there is memory again')
      arena.options.progress(`${round + 1} of ${rounds} rounds`)
    }
    return crew.judge({
      injected: rounds,
      repeats: true,
      allowedErrors: ['STORE_FULL'],
      inspect: ({ events }) => {
        const refused = events.filter(({ e }) => e === 'enqueue-refused').length
        const shown = events.filter(({ e }) => e === 'error').length
        return `${refused} enqueues refused and ${shown} errors shown, all STORE_FULL; ${settled} jobs completed meanwhile`
      },
    })
  },
  ['redis'],
)

async function accepts(arena: Arena): Promise<boolean> {
  return (await arena.enqueue([{}])).length > 0
}

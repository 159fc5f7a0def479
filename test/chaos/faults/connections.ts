/** No connection is to be had: the server takes no more, or somebody holds all of the pool. */
import pg from 'pg'
import { sleep } from '../arena.js'
import { postgresPlace, withClient } from '../engine.js'
import { fault } from '../fault.js'
import { roundsOf, startCrew } from './crew.js'
import { terminateAll } from './server.js'

/** Somebody takes every connection that the server has, and those that end on the way. */
export const maxConnections = fault(
  'max-connections',
  0,
  async (arena) => {
    const rounds = roundsOf(arena, 4)
    const { url } = postgresPlace(arena.place)
    const crew = await startCrew(arena)
    let most = 0
    for (let round = 0; round < rounds; round++) {
      await sleep(500)
      const taken = await withClient(url, async (admin) => {
        const clients = await takeAll(url)
        const alone = await arena.waitUntil(async () => {
          const ended = await terminateAll(admin)
          if (ended > 0) clients.push(...(await takeAll(url)))
          return ended === 0
        }, 5_000)
        if (!alone) arena.accuse('harness', 'somebody still has a connection')
        return clients
      })
      // The one that ended the others is free again; whoever gets it, the rest have none.
      await sleep(2_000)
      most = Math.max(most, taken.length)
      await arena.heal(crew.members, async () => {
        await Promise.all(taken.map((client) => client.end()))
      })
      arena.options.progress(`${round + 1} of ${rounds} rounds`)
    }
    return crew.judge({ injected: rounds, repeats: true, note: `all ${most} connections taken for 2 s` })
  },
  ['postgres'],
)

/** Until the server refuses one. */
async function takeAll(url: string): Promise<pg.Client[]> {
  const taken: pg.Client[] = []
  for (;;) {
    const client = new pg.Client({ connectionString: url, application_name: 'hog' })
    client.on('error', () => {})
    try {
      await client.connect()
    } catch {
      return taken
    }
    taken.push(client)
  }
}

/** The pool is the program's own, and something else in the same program holds all of it. */
export const poolHeld = fault(
  'pool-held',
  0,
  async (arena) => {
    const rounds = roundsOf(arena, 4)
    const holdMs = 2_500
    const restMs = 500
    const forMs = rounds * (holdMs + restMs)
    const place = postgresPlace(arena.place)
    const crew = await startCrew(arena, { ...place, hog: { connections: 4, holdMs, restMs, forMs } })
    // The last one begins before the time is over.
    await sleep(forMs + holdMs)
    await arena.heal(crew.members, () => {})
    return crew.judge({
      injected: rounds * crew.members.length,
      note: `all 4 connections of the pool held for ${holdMs} ms of each ${holdMs + restMs} ms`,
    })
  },
  ['postgres'],
)

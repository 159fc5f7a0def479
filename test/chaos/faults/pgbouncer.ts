/** PgBouncer in transaction mode stands before the server: workers are killed behind it, and it is killed itself. */
import { type PgBouncer, startPgBouncer } from '../../servers/pgbouncer.js'
import { type Arena, sleep } from '../arena.js'
import { postgresPlace } from '../engine.js'
import { type Fault, fault } from '../fault.js'
import type { Place } from '../place.js'
import type { Row } from '../row.js'
import { startCrew } from './crew.js'

export const poolerFaults = [
  behindPooler('pooler-workers', async (arena, place) => {
    const crew = await startCrew(arena, place)
    let left = arena.options.kills
    const slot = async () => {
      while (left-- > 0) {
        const victim = arena.launchWorker({ place })
        await sleep(arena.random.between(300, 900))
        await arena.kill(victim)
      }
    }
    await Promise.all([slot(), slot()])
    return crew.judge({ injected: arena.kills })
  }),
  behindPooler('pooler-kill', async (arena, place, pooler) => {
    const crew = await startCrew(arena, place)
    while (arena.kills < arena.options.kills) {
      await sleep(arena.random.between(100, 500))
      await pooler.kill()
      arena.kills++
      await arena.heal(crew.members, () => pooler.start())
    }
    return crew.judge({ injected: arena.kills, repeats: true })
  }),
]

function behindPooler(
  name: string,
  body: (arena: Arena, place: Place, pooler: PgBouncer) => Promise<Row>,
): Fault {
  const attack = async (arena: Arena) => {
    const place = postgresPlace(arena.place)
    const pooler = await startPgBouncer(place.url, { settings: { server_login_retry: 1 } })
    try {
      return await body(arena, { ...place, url: pooler.url }, pooler)
    } finally {
      await arena.fleet.killAll()
      await pooler.stop()
    }
  }
  return fault(name, 1, attack, ['postgres'])
}

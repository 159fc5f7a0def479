/** The server is killed, away or absent, or ends connections: what was acknowledged is there, and work goes on. */
import { sleep } from '../arena.js'
import { postgresPlace, withClient } from '../engine.js'
import { fault } from '../fault.js'
import { launchCrew, roundsOf, startCrew } from './crew.js'

/** Under load, and started again on the same data and port. Nobody is shown an error: patience outlasts it. */
export const killServer = fault(
  'server-kill',
  4,
  async (arena) => {
    const crew = await startCrew(arena)
    while (arena.kills < arena.options.kills) {
      await sleep(arena.random.between(50, 500))
      await arena.server.kill()
      arena.kills++
      await sleep(arena.random.between(0, 200))
      await arena.heal(crew.members, () => arena.server.start())
      arena.options.progress(`${arena.kills} kills`)
    }
    return crew.judge({ injected: arena.kills, repeats: true })
  },
  ['postgres', 'redis'],
)

/** Nobody is shown anything: patience outlasts it. */
export const shortOutage = fault(
  'outage-short',
  0,
  async (arena) => {
    const ms = Math.min(20_000, arena.options.outageMs)
    const crew = await startCrew(arena)
    await sleep(1_000)
    await arena.server.kill()
    await sleep(ms)
    await arena.heal(crew.members, () => arena.server.start())
    return crew.judge({ injected: 1, repeats: true, note: `${ms / 1000} s` })
  },
  ['redis'],
)

/** Longer than all patience: errors are shown, and when it is over the same processes go on. */
export const outage = fault(
  'outage',
  0,
  async (arena) => {
    const crew = await startCrew(arena)
    await sleep(1_000)
    await arena.server.kill()
    await sleep(arena.options.outageMs)
    await arena.heal(crew.members, () => arena.server.start())
    return crew.judge({
      injected: 1,
      repeats: true,
      allowedErrors: ['STORE_UNAVAILABLE'],
      note: `${arena.options.outageMs / 1000} s`,
      inspect: ({ events }) => {
        const shown = events.filter((event) => event.e === 'error').length
        return `${shown} errors shown, all STORE_UNAVAILABLE`
      },
    })
  },
  ['postgres', 'redis'],
)

/** Everybody else is there first. */
export const absentServer = fault(
  'server-absent',
  0,
  async (arena) => {
    await arena.server.kill()
    const crew = launchCrew(arena)
    await sleep(4_000)
    await arena.heal(crew.members, () => arena.server.start())
    return crew.judge({ injected: 1, repeats: true, note: 'absent for 4 s from the start' })
  },
  ['postgres', 'redis'],
)

/** All connections at once, idle or at work, again and again. */
export const terminatedBackends = fault(
  'backends',
  0,
  async (arena) => {
    const rounds = roundsOf(arena, 60)
    const { url } = postgresPlace(arena.place)
    const crew = await startCrew(arena)
    let terminated = 0
    for (let round = 0; round < rounds; round++) {
      await sleep(arena.random.between(20, 300))
      await arena.heal(crew.members, async () => {
        terminated += await withClient(url, terminateAll)
      })
      arena.options.progress(`${round + 1} of ${rounds} rounds`)
    }
    return crew.judge({ injected: terminated, repeats: true, note: `${rounds} times all connections` })
  },
  ['postgres'],
)

export async function terminateAll(client: {
  query(text: string): Promise<{ rowCount: number | null }>
}): Promise<number> {
  const { rowCount } = await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millrace'`,
  )
  return rowCount ?? 0
}

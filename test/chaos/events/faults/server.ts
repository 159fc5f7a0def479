/** The server of the log is killed under load; processes go on when it is back. */
import { eventsFault, sleep } from '../arena.js'
import { startCrew } from '../crew.js'

export const serverKill = eventsFault(
  'server-kill',
  6,
  async (arena) => {
    const projector = { reacts: true }
    const { writers, projectors, followers } = await startCrew(arena, { projectors: 2, projector })
    while (arena.kills < arena.options.kills) {
      await sleep(arena.random.between(50, 1_500))
      await arena.server.kill()
      arena.kills++
      await sleep(arena.random.between(0, 200))
      await arena.heal([...writers, ...projectors, ...followers], () => arena.server.start())
      arena.options.progress(`${arena.kills} kills`)
    }
    return arena.judge({ injected: arena.kills, writers, followers, reacts: true, mayComplain: true })
  },
  ['events-postgres'],
)

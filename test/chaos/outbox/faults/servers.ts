/** The server of the outbox, or of the Millrace, is killed under load; processes go on when it is back. */
import { outboxFault, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import type { RelayConfig } from '../relay-process.js'

export const serverKills = [
  killServer('server-kill', 'poll'),
  killServer('server-kill-stream', 'replication'),
]

function killServer(name: string, source: RelayConfig['source']) {
  return outboxFault(
    name,
    3,
    async (arena) => {
      const { writers, relays } = await startCrew(arena, { relay: { source } })
      while (arena.kills < arena.options.kills) {
        await sleep(arena.random.between(50, source === 'poll' ? 700 : 2_500))
        await arena.server.kill()
        arena.kills++
        await sleep(arena.random.between(0, 200))
        await arena.heal([...writers, ...relays], () => arena.server.start())
        arena.options.progress(`${arena.kills} kills`)
      }
      return arena.judge(writers, { injected: arena.kills, hasZombies: true, mayComplain: true })
    },
    ['outbox-postgres'],
  )
}

/** Of the Millrace: what it acknowledged is there, so no job is lost, and what comes again is dropped. */
export const targetKill = outboxFault(
  'target-kill',
  3,
  async (arena) => {
    const { writers, relays, runner } = await startCrew(arena)
    while (arena.kills < arena.options.kills) {
      await sleep(arena.random.between(50, 700))
      await arena.target.kill()
      arena.kills++
      await sleep(arena.random.between(0, 200))
      await arena.heal([...relays, runner], () => arena.target.start())
      arena.options.progress(`${arena.kills} kills`)
    }
    return arena.judge(writers, {
      injected: arena.kills,
      hasZombies: true,
      mayComplain: true,
      mayRerun: true,
    })
  },
  ['outbox-postgres'],
)

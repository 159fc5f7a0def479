/** The network between the processes and the server of the outbox fails and heals; the harness has a line of its own. */
import { type FaultyProxy, startProxy } from '../../../servers/proxy.js'
import { postgresPlace } from '../../engine.js'
import { outboxFault, sleep } from '../arena.js'
import { roundsOf, startCrew } from '../crew.js'
import type { RelayConfig } from '../relay-process.js'

interface NetworkFault {
  readonly name: string
  readonly source: RelayConfig['source']
  readonly rounds: number
  /** How long it lasts. */
  readonly ms: number
  harm(network: FaultyProxy): void
}

const kinds: readonly NetworkFault[] = [
  { name: 'net-cut', source: 'poll', rounds: 6, ms: 1_000, harm: (network) => network.cut() },
  { name: 'net-cut-stream', source: 'replication', rounds: 6, ms: 1_000, harm: (network) => network.cut() },
  { name: 'net-reset', source: 'poll', rounds: 20, ms: 0, harm: (network) => network.reset() },
  { name: 'net-black-hole', source: 'poll', rounds: 2, ms: 3_000, harm: (network) => network.blackHole() },
  {
    name: 'net-hole-stream',
    source: 'replication',
    rounds: 2,
    ms: 3_000,
    harm: (network) => network.blackHole(),
  },
]

export const networkFaults = kinds.map(({ name, source, rounds: full, ms, harm }) =>
  outboxFault(
    name,
    0,
    async (arena) => {
      const rounds = roundsOf(arena, full)
      const { place } = arena
      const business = postgresPlace(place.business)
      const network = await startProxy(business.url)
      const through = { place: { ...place, business: { ...business, url: network.through(business.url) } } }
      try {
        const { writers, relays } = await startCrew(arena, { relay: { source, ...through }, writer: through })
        for (let round = 0; round < rounds; round++) {
          await sleep(arena.random.between(100, source === 'poll' ? 800 : 3_000))
          harm(network)
          await sleep(ms)
          await arena.heal([...writers, ...relays], () => network.heal())
          arena.options.progress(`${round + 1} of ${rounds} faults`)
        }
        return await arena.judge(writers, { injected: rounds, hasZombies: true, mayComplain: true })
      } finally {
        await network.close()
      }
    },
    ['outbox-postgres'],
  ),
)

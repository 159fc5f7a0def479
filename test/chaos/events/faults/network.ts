/** The network between the processes and the server fails and heals; the harness has a line of its own. */
import { type FaultyProxy, startProxy } from '../../../servers/proxy.js'
import { postgresPlace } from '../../engine.js'
import { eventsFault, roundsOf, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import { eventsSettings } from '../settings.js'

interface NetworkFault {
  readonly name: string
  readonly rounds: number
  /** How long it lasts. */
  readonly ms: number
  readonly drainLimitMs?: number
  harm(network: FaultyProxy): void
}

const kinds: readonly NetworkFault[] = [
  { name: 'net-cut', rounds: 6, ms: 1_000, harm: (network) => network.cut() },
  { name: 'net-reset', rounds: 12, ms: 0, harm: (network) => network.reset() },
  {
    name: 'net-black-hole',
    rounds: 2,
    ms: 3_000,
    drainLimitMs: eventsSettings.silenceLimitMs + 15_000,
    harm: (network) => network.blackHole(),
  },
]

export const networkFaults = kinds.map(({ name, rounds: full, ms, harm, ...limits }) =>
  eventsFault(
    name,
    0,
    async (arena) => {
      const rounds = roundsOf(arena, full)
      const { place } = arena
      const book = postgresPlace(place.book)
      const network = await startProxy(book.url)
      const all = { place: { ...place, book: { ...book, url: network.through(book.url) } } }
      try {
        const projector = { reacts: true }
        const { writers, projectors, followers } = await startCrew(arena, { projectors: 2, projector, all })
        for (let round = 0; round < rounds; round++) {
          await sleep(arena.random.between(100, 1_000))
          harm(network)
          await sleep(ms)
          await arena.heal([...writers, ...projectors, ...followers], () => network.heal())
          arena.options.progress(`${round + 1} of ${rounds} faults`)
        }
        return await arena.judge({
          ...limits,
          injected: rounds,
          writers,
          followers,
          reacts: true,
          mayComplain: true,
        })
      } finally {
        await network.close()
      }
    },
    ['events-postgres'],
  ),
)

/** The network between the processes and the server fails and heals; the harness itself has a line of its own. */
import { type FaultyProxy, startProxy } from '../../servers/proxy.js'
import { type Arena, sleep } from '../arena.js'
import { servedPlace } from '../engine.js'
import { fault } from '../fault.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { roundsOf, startCrew } from './crew.js'

interface NetworkFault {
  readonly name: string
  readonly rounds: number
  /** How long it lasts. */
  readonly ms: number
  harm(network: FaultyProxy): void
}

const kinds: readonly NetworkFault[] = [
  { name: 'net-cut', rounds: 8, ms: 1_500, harm: (network) => network.cut() },
  { name: 'net-reset', rounds: 30, ms: 0, harm: (network) => network.reset() },
  // Until its connections are given up, 7 s after they were last asked.
  { name: 'net-black-hole', rounds: 4, ms: 2_000, harm: (network) => network.blackHole() },
  { name: 'net-no-replies', rounds: 4, ms: 2_000, harm: (network) => network.dropReplies() },
  { name: 'net-slow', rounds: 4, ms: 3_000, harm: (network) => network.slow(8_000) },
  { name: 'net-delay', rounds: 4, ms: 3_000, harm: (network) => network.delay(500, 250) },
]

export const networkFaults = kinds.map((kind) =>
  fault(kind.name, 0, (arena) => attack(arena, kind), ['postgres', 'redis']),
)

async function attack(arena: Arena, { rounds: full, ms, harm }: NetworkFault): Promise<Row> {
  const rounds = roundsOf(arena, full)
  const place = servedPlace(arena.place)
  const network = await startProxy(place.url)
  try {
    const crew = await startCrew(arena, { ...place, url: network.through(place.url) })
    for (let round = 0; round < rounds; round++) {
      await sleep(arena.random.between(100, 600))
      harm(network)
      await sleep(ms)
      await arena.heal(crew.members, () => network.heal())
      arena.options.progress(`${round + 1} of ${rounds} faults`)
    }
    return await crew.judge({ injected: rounds, repeats: true, graceMs: settings.graceMs })
  } finally {
    await network.close()
  }
}

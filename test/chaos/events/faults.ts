/** Every fault around an event store, in the order in which they run. */
import type { EventsFault } from './arena.js'
import { frozenWorkers } from './faults/frozen.js'
import { networkFaults } from './faults/network.js'
import { readers } from './faults/readers.js'
import { rebuildKills } from './faults/rebuild-kills.js'
import { serverKill } from './faults/server.js'
import { reactionKills, workerKills } from './faults/worker-kills.js'
import { writerKills } from './faults/writer-kills.js'
import type { EventsEngine } from './ground.js'

const faults: readonly EventsFault[] = [
  ...workerKills,
  ...reactionKills,
  ...rebuildKills,
  writerKills,
  ...frozenWorkers,
  serverKill,
  ...networkFaults,
  readers,
]

export function eventsFaultsOf(engine: EventsEngine): readonly EventsFault[] {
  return faults.filter(({ engines }) => engines?.includes(engine) ?? true)
}

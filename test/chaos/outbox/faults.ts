/** Every fault around an outbox, in the order in which they run. */
import type { OutboxFault } from './arena.js'
import { frozenRelays } from './faults/frozen.js'
import { networkFaults } from './faults/network.js'
import { relayKills, streamKills } from './faults/relay-kills.js'
import { serverKills, targetKill } from './faults/servers.js'
import { writerKills } from './faults/writer-kills.js'
import type { OutboxEngine } from './ground.js'

const faults: readonly OutboxFault[] = [
  ...relayKills,
  ...streamKills,
  writerKills,
  ...frozenRelays,
  ...serverKills,
  targetKill,
  ...networkFaults,
]

export function outboxFaultsOf(engine: OutboxEngine): readonly OutboxFault[] {
  return faults.filter(({ engines }) => engines?.includes(engine) ?? true)
}

import type { Gate } from './gate.js'
import type { GateStore } from './places.js'

/** Whether parked jobs of a gate are worth a look, and when; and whether the gate is worth keeping. */
export function review<G extends Gate>(places: GateStore<G>, gate: G, now: number): void {
  gate.dueAt = dueAt(gate, now)
  gate.idleAt = gate.whenIdle()
  if (gate.idleAt !== undefined && gate.idleAt <= now) places.forgetGate(gate)
  else places.keepGate(gate)
}

function dueAt(gate: Gate, now: number): number | undefined {
  if (gate.parked === 0) return undefined
  const free = gate.room(now)
  if (free === 0) return gate.opensAt(now)
  // Those that stand in a line already will use what there is; the next look is when one of them has.
  for (const { parked, standing } of gate.lines.values()) if (parked > 0 && standing < free) return now
  return undefined
}

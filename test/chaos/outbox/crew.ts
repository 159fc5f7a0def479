import type { Member } from '../fleet.js'
import type { OutboxArena } from './arena.js'
import type { RelayConfig } from './relay-process.js'
import type { WriterConfig } from './writer-process.js'

/** Processes at work that nobody restarts. */
export interface OutboxCrew {
  readonly writers: readonly Member[]
  readonly relays: readonly Member[]
  readonly runner: Member
}

export interface CrewOptions {
  readonly writers?: number
  readonly relays?: number
  readonly writer?: Partial<WriterConfig>
  readonly relay?: Partial<RelayConfig>
}

/** Somebody who writes, somebody who relays, and a worker where the jobs arrive. */
export async function startCrew(arena: OutboxArena, options: CrewOptions = {}): Promise<OutboxCrew> {
  const { writers = 2, relays = 2, writer, relay } = options
  const crew = {
    writers: Array.from({ length: writers }, () => arena.launchWriter(writer)),
    relays: Array.from({ length: relays }, () => arena.launchRelay(relay)),
    runner: arena.launchRunner(),
  }
  await Promise.all([...crew.writers, ...crew.relays, crew.runner].map((member) => member.ready))
  return crew
}

/** So many in a full run, fewer in a short one. */
export function roundsOf(arena: OutboxArena, full: number): number {
  return Math.max(1, Math.round(full * arena.options.scale))
}

import type { Member } from '../fleet.js'
import type { EventsArena } from './arena.js'
import type { EventsChildConfig } from './child.js'
import type { ProjectorConfig } from './projector-process.js'
import type { WriterConfig } from './writer-process.js'

/** Processes at work that nobody restarts. */
export interface EventsCrew {
  readonly writers: readonly Member[]
  readonly projectors: readonly Member[]
  readonly followers: readonly Member[]
}

export interface CrewOptions {
  readonly writers?: number
  readonly projectors?: number
  readonly writer?: Partial<WriterConfig>
  readonly projector?: Partial<ProjectorConfig>
  /** For all of them. */
  readonly all?: Partial<EventsChildConfig>
}

/** Somebody who appends, somebody who projects, and one who follows. */
export async function startCrew(arena: EventsArena, options: CrewOptions = {}): Promise<EventsCrew> {
  const { writers = 2, projectors = 1, writer, projector, all } = options
  const crew = {
    writers: Array.from({ length: writers }, () => arena.launchWriter({ ...all, ...writer })),
    projectors: Array.from({ length: projectors }, () => arena.launchProjector({ ...all, ...projector })),
    followers: [arena.launchFollower(all)],
  }
  await Promise.all([...crew.writers, ...crew.projectors, ...crew.followers].map((member) => member.ready))
  return crew
}

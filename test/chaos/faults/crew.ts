import type { Arena, Judgement } from '../arena.js'
import type { Member } from '../fleet.js'
import type { Place } from '../place.js'
import type { Row } from '../row.js'

/** Processes at work that nobody restarts. */
export interface Crew {
  readonly members: readonly Member[]
  /** Stops those who add jobs and judges. */
  judge(judgement: Judgement): Promise<Row>
}

/** Two workers and somebody who gives them more than enough to do. */
export async function startCrew(arena: Arena, place: Place = arena.place): Promise<Crew> {
  const crew = launchCrew(arena, place)
  await Promise.all(crew.members.map((member) => member.ready))
  return crew
}

/** The same, without waiting until they are at work. */
export function launchCrew(arena: Arena, place: Place = arena.place): Crew {
  const producer = arena.launchProducer({
    place,
    jobs: Number.MAX_SAFE_INTEGER,
    mixed: true,
    pauseMs: 20,
    level: 100,
  })
  return {
    members: [arena.launchWorker({ place }), arena.launchWorker({ place }), producer],
    async judge(judgement) {
      producer.signal('SIGTERM')
      await arena.ended(producer, 0)
      return arena.judge(judgement)
    },
  }
}

/** So many in a full run, fewer in a short one. */
export function roundsOf(arena: Arena, full: number): number {
  return Math.max(1, Math.round(full * arena.options.scale))
}

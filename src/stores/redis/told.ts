import type { ClaimedJob } from '../../core/job.js'
import type { ToldJobs as Jobs } from '../page/heads.js'
import { readBody } from './body.js'
import { readStory } from './story.js'
import { idIn, seqIn } from './ticket.js'

/** What a worker has to know of earlier runs of a job. */
export interface Past {
  readonly attempt?: number
  readonly crashes?: number
  readonly readyAt?: number
  readonly retryDelay?: number
}

export const noPast: Past = {}

/** `story`: undefined or '' for one that has nothing to tell. */
export function pastIn(story: string | undefined): Past {
  if (story === undefined || story === '') return noPast
  const { rest } = readStory(story)
  return rest === null ? noPast : (JSON.parse(rest) as Past)
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** What write.lua tells of jobs that were started by their places. */
export class ToldJobs implements Jobs {
  readonly seqs: readonly number[]
  readonly #tickets: readonly string[]
  readonly #bodies: readonly string[]
  readonly #stories: readonly string[]

  constructor(tickets: readonly string[], bodies: readonly string[], stories: readonly string[]) {
    this.seqs = tickets.map((ticket) => seqIn(ticket))
    this.#tickets = tickets
    this.#bodies = bodies
    this.#stories = stories
  }

  id(i: number): string {
    return idIn(this.#tickets[i] as string)
  }

  tell(i: number, to: ClaimedJob, token: string): void {
    const job = to as Mutable<ClaimedJob>
    const { created_at, max_attempts, max_crashes, input, overrides, metadata } = readBody(
      this.#bodies[i] as string,
    )
    const past = pastIn(this.#stories[i])
    job.id = this.id(i)
    job.token = token
    job.input = input
    job.createdAt = created_at
    job.maxAttempts = max_attempts
    job.maxCrashes = max_crashes
    job.attempt = (past.attempt ?? 0) + 1
    job.crashes = past.crashes ?? 0
    job.readyAt = past.readyAt ?? created_at
    job.retryDelay = past.retryDelay ?? 0
    job.overrides = overrides ?? undefined
    job.metadata = metadata ?? undefined
  }
}

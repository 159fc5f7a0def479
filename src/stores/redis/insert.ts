import type { JobState, NewJob } from '../../core/job.js'
import type { ExchangeRequest, InsertResult } from '../../core/store.js'
import { onlyParent } from '../page/job-row.js'
import type { Connection } from './connection.js'
import { insertArgs } from './insert-args.js'
import { scripts } from './scripts.js'

/**
 * Nothing but its queue, its definition and its group can hold it up, its end means nothing but that its parent waits for one less,
 * and it is found by nothing but its id.
 */
export function isPlain(job: NewJob): boolean {
  return (
    (job.family === undefined || isPlainChild(job)) &&
    job.traffic?.key === undefined &&
    job.dedupe === undefined &&
    job.guard === undefined &&
    !hasMarks(job) &&
    job.unwinds !== true
  )
}

function isPlainChild(job: NewJob): boolean {
  return job.traffic === undefined && job.family?.loose !== true && onlyParent(job) !== undefined
}

/** It is found by more than its id, and so by other things when its state changes. */
export function hasMarks({ tags, search }: NewJob): boolean {
  return tags !== undefined || search !== undefined
}

/** What an insert came to, and what there is to tell of it. */
export interface Inserted {
  readonly results: InsertResult[]
  readonly ready: ReadonlySet<string>
  readonly soonest: number | undefined
  readonly now: number
  /** The position before the first one, and the number of the last one's kind. */
  readonly before: number
  readonly kind: number
  /** Whose they are from the beginning: nobody's, those of the claim that came with them, or those of another process. */
  readonly given: Given
}

type Given = '' | 'own' | readonly [ear: string, claim: string]

type Answer =
  | readonly [now: string, known: readonly number[], before: number, kind: string, given: Given]
  | readonly ['desk']

/** Adds plain jobs in one script. */
export class Inserter {
  readonly #connection: Connection
  readonly #now: () => number | ''
  readonly #ear: string

  constructor(connection: Connection, ear: string, now: () => number | '') {
    this.#connection = connection
    this.#ear = ear
    this.#now = now
  }

  /** Undefined when only the desk can: nothing was written. `claim`: of an idle worker that they may be given to. */
  async insert(jobs: readonly NewJob[], claim?: ExchangeRequest): Promise<Inserted | undefined> {
    const args = [this.#now(), this.#ear, ...insertArgs(jobs, claim)]
    const answer = (await this.#connection.run(scripts.insert, args)) as Answer
    if (answer[0] === 'desk') return undefined
    // In which state a job is that stood already, inserting.ts asks.
    const [now, known, before, kind, given] = answer as Exclude<Answer, readonly ['desk']>
    return {
      ...concluded(jobs, Number(now), new Set(known), given === ''),
      now: Number(now),
      before,
      kind: Number(kind),
      given,
    }
  }
}

/** `known`: places, from 1 on, of those whose ids exist. */
function concluded(
  jobs: readonly NewJob[],
  now: number,
  known: ReadonlySet<number>,
  areReady: boolean,
): Pick<Inserted, 'results' | 'ready' | 'soonest'> {
  const ready = new Set<string>()
  let soonest: number | undefined
  const results = jobs.map((job, i): InsertResult => {
    if (known.has(i + 1)) return { status: 'duplicate', state: undefined }
    const due = job.runAt ?? now + job.delay
    if (due <= now) {
      if (areReady) ready.add(job.queue)
      return inserted('pending')
    }
    soonest = Math.min(soonest ?? Number.POSITIVE_INFINITY, due - now)
    return inserted('scheduled')
  })
  return { results, ready, soonest }
}

function inserted(state: JobState): InsertResult {
  return { status: 'inserted', state }
}

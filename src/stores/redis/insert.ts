import type { JobState, NewJob } from '../../core/job.js'
import type { ExchangeRequest, InsertResult } from '../../core/store.js'
import type { JobTraffic } from '../../core/traffic/settings.js'
import { kindKey } from '../page/kinds.js'
import { writeGiven } from './body.js'
import type { Connection } from './connection.js'
import { scripts } from './scripts.js'
import { untold, writeStory } from './story.js'
import { handleOf } from './ticket.js'

/** Nothing but its queue and its definition can hold it up, its end means nothing to others, and it is found by nothing but its id. */
export function isPlain(job: NewJob): boolean {
  return (
    job.family === undefined &&
    job.traffic?.key === undefined &&
    job.dedupe === undefined &&
    job.guard === undefined &&
    !hasMarks(job) &&
    job.unwinds !== true
  )
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
    const teams = new Teams(jobs)
    const args = [this.#now(), this.#ear, ...claimArgs(claim), ...teams.args()]
    this.#addJobs(jobs, teams, args)
    const answer = (await this.#connection.run(scripts.insert, args)) as Answer
    if (answer[0] === 'desk') return undefined
    // What stands already the desk looks at: others may want to know in which state.
    const [now, known, before, kind, given] = answer as Exclude<Answer, readonly ['desk']>
    return {
      ...concluded(jobs, Number(now), new Set(known), given === ''),
      now: Number(now),
      before,
      kind: Number(kind),
      given,
    }
  }

  #addJobs(jobs: readonly NewJob[], teams: Teams, args: (string | number)[]): void {
    let sizeAt = 0
    let last: NewJob | undefined
    for (const job of jobs) {
      if (last === undefined || !isAlike(last, job)) {
        const flags = [isGated(job) ? 1 : 0, hasGroup(job) ? 1 : 0]
        args.push(kindKey(job.queue, job.name, job.lane), ...flags, dueOf(job), 0)
        sizeAt = args.length - 1
        last = job
      }
      args[sizeAt] = (args[sizeAt] as number) + 1
      args.push(handleOf(job.id), given(job))
      if (hasGroup(job)) args.push(teams.numberOf(job))
    }
  }
}

function claimArgs({ worker, claim }: Partial<ExchangeRequest> = {}): (string | number)[] {
  if (claim === undefined) return ['', '', '', 0]
  const lines = claim.picks.map(({ queue, lane }) => `${lane}:${queue}`)
  return [worker as string, claim.token, claim.lease, lines.length, ...lines]
}

function isAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.name === b.name &&
    a.queue === b.queue &&
    a.lane === b.lane &&
    isGated(a) === isGated(b) &&
    hasGroup(a) === hasGroup(b) &&
    a.delay === b.delay &&
    a.runAt === b.runAt
  )
}

function isGated({ traffic }: NewJob): boolean {
  return traffic?.gated === true
}

function hasGroup({ traffic }: NewJob): boolean {
  return traffic?.group !== undefined
}

/** Jobs of the same group and as many gates are told apart by nothing that limits know. */
class Teams {
  readonly #numbers = new Map<string, number>()
  readonly #args: (string | number)[] = []

  constructor(jobs: readonly NewJob[]) {
    for (const { queue, traffic } of jobs) {
      if (traffic?.group === undefined) continue
      const name = nameOf(queue, traffic)
      if (this.#numbers.has(name)) continue
      this.#numbers.set(name, this.#numbers.size + 1)
      const rest = JSON.stringify({ traffic })
      this.#args.push(`group\n${queue}\n${traffic.group}`, writeStory({ ...untold, rest }))
    }
  }

  args(): (string | number)[] {
    return [this.#numbers.size, ...this.#args]
  }

  numberOf({ queue, traffic }: NewJob): number {
    return this.#numbers.get(nameOf(queue, traffic as JobTraffic)) as number
  }
}

function nameOf(queue: string, { gated, group }: JobTraffic): string {
  return `${gated ? 1 : 0}${queue}\n${group}`
}

function dueOf({ delay, runAt }: NewJob): string {
  if (runAt !== undefined) return String(runAt)
  return delay > 0 ? `+${delay}` : ''
}

function given({ maxAttempts, maxCrashes, input, overrides, metadata }: NewJob): string {
  return writeGiven({
    max_attempts: maxAttempts,
    max_crashes: maxCrashes,
    input,
    overrides: overrides ?? null,
    tags: null,
    search: null,
    metadata: metadata ?? null,
  })
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

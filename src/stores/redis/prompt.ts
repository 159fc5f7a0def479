import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult, Signal } from '../../core/store.js'
import { Boarding } from '../page/boarding.js'
import { plainClaimed } from './claimed.js'
import type { Exchanger } from './exchange.js'
import type { Inserted, Inserter } from './insert.js'
import { position } from './ticket.js'
import { tokenEnd } from './token.js'
import { noPast } from './told.js'

export interface PromptParts {
  readonly inserter: Inserter
  readonly exchanger: Exchanger
  /** Queues that have limits or groups, as far as is known. */
  readonly limited: ReadonlySet<string>
  tell(signal: Signal): void
}

/**
 * Few jobs, for which somebody may be waiting: an idle worker's claim goes with them, so that they are its own from the beginning.
 * That of another process is on the server already; see gifts.ts.
 */
export class Prompt {
  readonly #parts: PromptParts
  readonly #boarding: Boarding

  constructor(parts: PromptParts) {
    this.#parts = parts
    const { exchanger, limited } = parts
    this.#boarding = new Boarding(
      (request) => exchanger.takes(request) && !request.claim?.picks.some(({ queue }) => limited.has(queue)),
    )
  }

  /** Lets a claim go along with the jobs that are being announced; undefined when there are none. */
  board(request: ExchangeRequest): Promise<ExchangeResult> | undefined {
    return this.#boarding.board(request)
  }

  /** Undefined for the desk. `alone` asks the server: it may have given them without our hearing of it. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Inserted | undefined> {
    const { inserter, tell } = this.#parts
    const queues = new Set(jobs.map(({ queue }) => queue))
    const guest = this.#boarding.guestOf(() => tell({ type: 'arriving', queues }))
    const isFor = guest !== undefined && fits(guest.request, jobs)
    let isGiven = false
    try {
      const inserted = await inserter.insert(jobs, isFor ? guest.request : undefined)
      if (inserted?.given === 'own' && guest !== undefined) {
        const claimed = givenTo(guest.request, jobs, inserted)
        guest.answer({ settled: [], claimed, opens: undefined })
        isGiven = true
        tell({ type: 'claimed', jobs: claimed })
      }
      return inserted
    } finally {
      if (!isGiven) guest?.answer(alone(guest.request))
    }
  }
}

/** Whether it has asked for all of them, and has room. */
function fits({ claim }: ExchangeRequest, jobs: readonly NewJob[]): boolean {
  if (claim === undefined || jobs.length > claim.room.shared) return false
  return jobs.every((job) => claim.picks.some(({ queue, lane }) => queue === job.queue && lane === job.lane))
}

function givenTo(
  { claim }: ExchangeRequest,
  jobs: readonly NewJob[],
  { now, kind, before }: Inserted,
): ClaimedJob[] {
  const end = tokenEnd(kind, claim?.token as string)
  return jobs.map((job, i) => {
    const { name, queue, lane, maxAttempts: max_attempts, maxCrashes: max_crashes, input } = job
    const { overrides = null, metadata = null } = job
    const body = {
      created_at: now,
      max_attempts,
      max_crashes,
      input,
      overrides,
      metadata,
      tags: null,
      search: null,
    }
    return plainClaimed(
      job.id,
      position(before + 1 + i),
      { name, queue, lane, tokenEnd: end, group: undefined },
      body,
      noPast,
      now,
    )
  })
}

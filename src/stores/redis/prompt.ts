import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult, Signal } from '../../core/store.js'
import { plainClaimed } from './claimed.js'
import type { Exchanger } from './exchange.js'
import type { Inserted, Inserter } from './insert.js'
import { position } from './ticket.js'
import { tokenEnd } from './token.js'
import { noPast } from './told.js'

/** More jobs than this are not waited for by one worker; see insert.lua. */
const few = 20

/** A claim that goes along. */
interface Guest {
  readonly request: ExchangeRequest
  answer(result: ExchangeResult | Promise<ExchangeResult>): void
}

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
  #isBoarding = false
  #guest: Guest | undefined

  constructor(parts: PromptParts) {
    this.#parts = parts
  }

  takes(jobs: readonly NewJob[]): boolean {
    return jobs.length <= few && jobs.every(({ delay, runAt }) => delay === 0 && runAt === undefined)
  }

  /** Lets a claim go along with the jobs that are being announced; undefined when there are none. */
  board(request: ExchangeRequest): Promise<ExchangeResult> | undefined {
    const { exchanger, limited } = this.#parts
    if (!this.#isBoarding || this.#guest !== undefined || request.settlements.length > 0) return undefined
    if (request.claim === undefined || !exchanger.takes(request, limited)) return undefined
    return new Promise((answer) => {
      this.#guest = { request, answer }
    })
  }

  /** Undefined for the desk. `alone` asks the server: it may have given them without our hearing of it. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Inserted | undefined> {
    const { inserter } = this.#parts
    const guest = this.#announce(jobs)
    const isFor = guest !== undefined && fits(guest.request, jobs)
    let isGiven = false
    try {
      const inserted = await inserter.insert(jobs, isFor ? guest.request : undefined)
      if (inserted?.given === 'own' && guest !== undefined) {
        const claimed = givenTo(guest.request, jobs, inserted)
        guest.answer({ settled: [], claimed, opens: undefined })
        isGiven = true
        this.#parts.tell({ type: 'claimed', jobs: claimed })
      }
      return inserted
    } finally {
      if (!isGiven) guest?.answer(alone(guest.request))
    }
  }

  #announce(jobs: readonly NewJob[]): Guest | undefined {
    this.#isBoarding = true
    this.#parts.tell({ type: 'arriving', queues: new Set(jobs.map(({ queue }) => queue)) })
    this.#isBoarding = false
    const guest = this.#guest
    this.#guest = undefined
    return guest
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
      { name, queue, lane, tokenEnd: end },
      body,
      noPast,
      now,
    )
  })
}

import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'

/** More jobs than this are not waited for by one worker. */
export const few = 20

/** Few jobs that are ready: somebody may be waiting for them. */
export function areAwaited(jobs: readonly NewJob[]): boolean {
  return jobs.length <= few && jobs.every(({ delay, runAt }) => delay === 0 && runAt === undefined)
}

/** A claim that goes along with jobs. */
export interface Guest {
  readonly request: ExchangeRequest
  answer(result: ExchangeResult | Promise<ExchangeResult>): void
}

/** While jobs are announced, one claim that is made goes along with them, if `mayBoard`. */
export class Boarding {
  readonly #mayBoard: (request: ExchangeRequest) => boolean
  #isOpen = false
  #guest: Guest | undefined

  constructor(mayBoard: (request: ExchangeRequest) => boolean) {
    this.#mayBoard = mayBoard
  }

  /** Undefined for a claim that has to be done by itself. */
  board(request: ExchangeRequest): Promise<ExchangeResult> | undefined {
    if (!this.#isOpen || this.#guest !== undefined || request.settlements.length > 0) return undefined
    if (request.claim === undefined || !this.#mayBoard(request)) return undefined
    return new Promise((answer) => {
      this.#guest = { request, answer }
    })
  }

  /** Who has come along while `announce` told of the jobs. */
  guestOf(announce: () => void): Guest | undefined {
    this.#isOpen = true
    announce()
    this.#isOpen = false
    const guest = this.#guest
    this.#guest = undefined
    return guest
  }
}

import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import { areAwaited } from '../page/boarding.js'
import type { Exchanged, Exchanger } from './exchange.js'
import { type Inserted, type Inserter, isPlain } from './insert.js'
import type { Prompt } from './prompt.js'

export interface FastPathParts {
  readonly inserter: Inserter
  readonly exchanger: Exchanger
  readonly prompt: Prompt
  /** Queues that have limits or groups, as far as is known. */
  readonly limited: ReadonlySet<string>
}

/** Does what is plain in one script. What only the desk can do it leaves to that: nothing of it happened. */
export class FastPath {
  readonly #parts: FastPathParts
  #bounces = 0
  /** Exchanges to come that go to the desk at once. */
  #atDesk = 0

  constructor(parts: FastPathParts) {
    this.#parts = parts
  }

  /** Undefined for the desk. `alone` asks for a claim that could not go along. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Inserted | undefined> {
    const { inserter, limited, prompt } = this.#parts
    if (!jobs.every((job) => isPlain(job) && !limited.has(job.queue))) return undefined
    return areAwaited(jobs) ? prompt.insert(jobs, alone) : inserter.insert(jobs)
  }

  /** Undefined for the desk. */
  async exchange(request: ExchangeRequest): Promise<Exchanged | undefined> {
    const { exchanger, limited } = this.#parts
    if (!exchanger.takes(request, limited) || this.#keepsToDesk()) return undefined
    const exchanged = await exchanger.exchange(request)
    this.#bounced(exchanged === undefined)
    return exchanged
  }

  /** Where the fast path fails again and again, it is tried more and more seldom. */
  #keepsToDesk(): boolean {
    if (this.#atDesk === 0) return false
    this.#atDesk--
    return true
  }

  #bounced(isBounced: boolean): void {
    this.#bounces = isBounced ? Math.min(64, Math.max(4, this.#bounces * 2)) : 0
    this.#atDesk = this.#bounces
  }
}

import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { sqlState } from '../../databases/postgres/errors.js'
import { areAwaited } from '../page/boarding.js'
import type { Exchanger } from './exchange.js'
import { type Inserter, isPlain } from './insert.js'
import type { Joining } from './joining.js'
import type { Names } from './names.js'
import type { Prompt, Sent } from './prompt.js'

/** What the functions of the fast path say when it is not for them: not plain, or in other hands. */
const forDesk: ReadonlySet<string> = new Set(['MR001', '55P03', '40P01', '54000'])

/** The same for jobs that must be new. */
const forDeskOrKnown: ReadonlySet<string> = new Set([...forDesk, '23505'])

export interface FastPathParts {
  readonly connection: Connection
  readonly names: Names
  readonly inserter: Inserter
  readonly exchanger: Exchanger
  readonly joining: Joining
  readonly prompt: Prompt
}

/** Does what is plain in one statement. What only the desk can do it leaves to that: nothing of it happened. */
export class FastPath {
  readonly #parts: FastPathParts
  #bounces = 0
  /** Exchanges to come that go to the desk at once. */
  #atDesk = 0

  constructor(parts: FastPathParts) {
    this.#parts = parts
  }

  takes(jobs: readonly NewJob[]): boolean {
    const { limited } = this.#parts.names
    return jobs.every((job) => isPlain(job) && !limited.has(job.queue))
  }

  /** Undefined for the desk. `alone` does a claim that was to go along and could not. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Sent | undefined> {
    const { prompt, inserter, connection } = this.#parts
    if (!this.takes(jobs)) return this.#join(jobs)
    if (areAwaited(jobs)) {
      const sent = await unless(forDeskOrKnown, () => prompt.insert(jobs, alone))
      if (sent !== undefined) return sent
    }
    const inserted = await unless(forDesk, () => inserter.insert(connection, jobs))
    return inserted && { ...inserted, isTold: false }
  }

  /** An id that exists is for the desk too: it may be a child that was added before. */
  async #join(jobs: readonly NewJob[]): Promise<Sent | undefined> {
    const { joining, names } = this.#parts
    if (!joining.takes(jobs) || names.limited.has(jobs[0]?.queue as string)) return undefined
    const inserted = await unless(forDeskOrKnown, () => joining.insert(jobs))
    return inserted && { ...inserted, isTold: false }
  }

  /** `desk`: it is not for the fast path; `whole`: nor by count, for there seems to be more to some of its jobs. */
  async exchange(request: ExchangeRequest): Promise<ExchangeResult | 'desk' | 'whole'> {
    const { prompt, exchanger } = this.#parts
    const boarded = prompt.board(request)
    if (boarded !== undefined) return boarded
    if (!exchanger.takes(request)) return 'desk'
    if (this.#keepsToDesk()) return 'whole'
    const result = await unless(forDesk, () => exchanger.exchange(request))
    this.#bounced(result === undefined)
    return result ?? 'whole'
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

/** Undefined if the server says one of these. */
async function unless<T>(codes: ReadonlySet<string>, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (codes.has(sqlState(error) ?? '')) return undefined
    throw error
  }
}

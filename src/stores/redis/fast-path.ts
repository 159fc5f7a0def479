import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import { areAwaited } from '../page/boarding.js'
import type { Exchanged, Exchanger } from './exchange.js'
import { type Inserted, type Inserter, isPlain } from './insert.js'
import type { Prompt } from './prompt.js'
import { tellsOfGate } from './token.js'

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
  readonly #bounces = new Bounces()

  constructor(parts: FastPathParts) {
    this.#parts = parts
  }

  /** Undefined for the desk. `alone` asks for a claim that could not go along. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Inserted | undefined> {
    const { inserter, limited, prompt } = this.#parts
    if (!jobs.every(isPlain)) return undefined
    const unsure = jobs.find((job) => (job.traffic ?? job.family) !== undefined || limited.has(job.queue))
    if (unsure === undefined) return areAwaited(jobs) ? prompt.insert(jobs, alone) : inserter.insert(jobs)
    const name = unsure.family === undefined ? `insert ${unsure.queue}` : 'children'
    return this.#bounces.tried(name, () => inserter.insert(jobs))
  }

  /** Undefined for the desk. */
  async exchange(request: ExchangeRequest): Promise<Exchanged | undefined> {
    const { exchanger, limited } = this.#parts
    if (!exchanger.takes(request)) return undefined
    const pick = request.claim?.picks.find(({ queue }) => limited.has(queue))
    // What settles jobs with gates says nothing of others.
    const settles = request.settlements.some(({ token }) => tellsOfGate(token)) ? 'ends' : ''
    return this.#bounces.tried(pick?.queue ?? settles, () => exchanger.exchange(request, limited))
  }
}

/** Where the fast path fails again and again, it is tried more and more seldom. */
class Bounces {
  /** In a row, and how many of those to come go to the desk at once. */
  readonly #counts = new Map<string, { failed: number; left: number }>()

  async tried<T>(name: string, attempt: () => Promise<T | undefined>): Promise<T | undefined> {
    const count = this.#counts.get(name)
    if (count !== undefined && count.left > 0) {
      count.left--
      return undefined
    }
    const done = await attempt()
    if (done !== undefined) {
      this.#counts.delete(name)
      return done
    }
    // The first few may be by chance.
    const failed = (count?.failed ?? 0) + 1
    this.#counts.set(name, { failed, left: failed < 3 ? 0 : Math.min(64, 2 ** failed) })
    return undefined
  }
}

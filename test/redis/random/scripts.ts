/** Which scripts run in the server for a call, and answers of theirs that get lost. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { NewJob } from '../../../src/core/job.js'
import type { ExchangeRequest, ExchangeResult, InsertResult, Store } from '../../../src/core/store.js'
import type { Random } from '../../chaos/random.js'
import { intercept } from '../intercept.js'

const writing = ['insert', 'exchange', 'write', 'retract']

/** As if some answers had got lost: what writes is sent once more. Returns what ends it. */
export function loseAnswers(random: Random): () => void {
  return intercept(async (run, { name }) => {
    if (writing.includes(name) && random.chance(0.04)) await run().catch(() => {})
    return run()
  })
}

/** Counts calls for jobs that have limits or groups, if one script alone has done what was asked. */
export class WithoutDesk {
  inserts = 0
  claims = 0
  ends = 0
  readonly #scripts = new AsyncLocalStorage<string[]>()

  constructor() {
    intercept((run, { name }) => {
      this.#scripts.getStore()?.push(name)
      return run()
    })
  }

  async insert(
    store: Store,
    jobs: readonly NewJob[],
    governed: ReadonlySet<string>,
  ): Promise<InsertResult[]> {
    const { result, isFast } = await this.#watch('insert', () => store.insert(jobs))
    if (isFast && jobs.some(({ id }) => governed.has(id))) this.inserts++
    return result
  }

  async exchange(
    store: Store,
    request: ExchangeRequest,
    governed: ReadonlySet<string>,
  ): Promise<ExchangeResult> {
    const { result, isFast } = await this.#watch('exchange', () => store.exchange(request))
    if (isFast && request.settlements.some(({ id }) => governed.has(id))) this.ends++
    if (isFast && result.claimed.some(({ id }) => governed.has(id))) this.claims++
    return result
  }

  async #watch<T>(script: string, call: () => Promise<T>): Promise<{ result: T; isFast: boolean }> {
    const ran: string[] = []
    const result = await this.#scripts.run(ran, call)
    // The desk begins with a look.
    return { result, isFast: ran.includes(script) && !ran.includes('look') }
  }
}

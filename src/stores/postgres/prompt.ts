import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import type { WakeUps } from '../../databases/postgres/wake-ups.js'
import { Boarding } from '../page/boarding.js'
import type { Subscribers } from '../page/subscribers.js'
import type { Exchanger } from './exchange.js'
import type { HandOver } from './hand-over.js'
import type { Inserted, Inserter } from './insert.js'

export interface Sent extends Inserted {
  /** Other processes have been told, or need not be: all that is ready has been taken. */
  readonly isTold: boolean
}

interface PromptParts {
  readonly connection: Connection
  readonly inserter: Inserter
  readonly exchanger: Exchanger
  readonly handOver: HandOver
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps
}

/**
 * Few jobs, for which somebody may be waiting: what comes next goes with them, in one message. That is the claim of an idle
 * worker of this process, in the same transaction, or else the word to other processes, behind the commit.
 */
export class Prompt {
  readonly #parts: PromptParts
  readonly #boarding: Boarding

  constructor(parts: PromptParts) {
    this.#parts = parts
    this.#boarding = new Boarding((request) => parts.exchanger.takes(request))
  }

  /** Lets a claim go along with the jobs that are being announced; undefined when there are none. */
  board(request: ExchangeRequest): Promise<ExchangeResult> | undefined {
    return this.#boarding.board(request)
  }

  /** `alone` does what could not go along. */
  async insert(
    jobs: readonly NewJob[],
    alone: (request: ExchangeRequest) => Promise<ExchangeResult>,
  ): Promise<Sent> {
    const queues = new Set(jobs.map(({ queue }) => queue))
    const { subscribers } = this.#parts
    const guest = this.#boarding.guestOf(() => subscribers.tell({ type: 'arriving', queues }))
    if (guest === undefined) return this.#insertAndTell(jobs, [...queues])
    try {
      const { sent, result } = await this.#insertAndClaim(jobs, guest.request)
      guest.answer(Promise.resolve(result))
      return sent
    } catch (error) {
      guest.answer(alone(guest.request))
      throw error
    }
  }

  async #insertAndTell(jobs: readonly NewJob[], queues: readonly string[]): Promise<Sent> {
    const { connection, inserter, wakeUps } = this.#parts
    const word = wakeUps.word(queues)
    if (word === undefined) return { ...(await inserter.insert(connection, jobs)), isTold: false }
    const insertion = await inserter.asScript(jobs)
    const answers = await connection.scripts((ask, begin) =>
      ask(script(begin, insertion.text, 'COMMIT', word)),
    )
    return { ...(await insertion.conclude(answers.at(-3) ?? [])), isTold: true }
  }

  async #insertAndClaim(
    jobs: readonly NewJob[],
    request: ExchangeRequest,
  ): Promise<{ sent: Sent; result: ExchangeResult }> {
    const { connection, inserter, exchanger, handOver } = this.#parts
    const { claim: asked } = request
    if (asked !== undefined && handOver.takes(jobs, asked)) {
      const claimed = await handOver.hand(jobs, request, asked)
      return { sent: allTaken(jobs), result: { settled: [], claimed, opens: undefined } }
    }
    const insertion = await inserter.asScript(jobs)
    const claim = await exchanger.asScript(request)
    const answers = await connection.scripts((ask, begin) =>
      ask(script(begin, insertion.text, claim.text, 'COMMIT')),
    )
    const inserted = await insertion.conclude(answers.at(-3) ?? [])
    const result = await claim.conclude(answers.at(-2) ?? [])
    const taken = new Set(result.claimed.map(({ id }) => id))
    const isTold = jobs.every(({ id }, i) => inserted.results[i]?.status !== 'inserted' || taken.has(id))
    return { sent: { ...inserted, isTold, ...(isTold && { ready: new Set<string>() }) }, result }
  }
}

function allTaken(jobs: readonly NewJob[]): Sent {
  const results = jobs.map(() => ({ status: 'inserted', state: 'pending' }) as const)
  return { results, ready: new Set(), soonest: undefined, isTold: true }
}

function script(...statements: readonly string[]): string {
  return statements.join(';\n')
}

/** Adds jobs: those that are plain on the fast path, others at the desk; and tells what came of it. */
import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult, InsertResult, Signal } from '../../core/store.js'
import { insert } from '../ledger/insert.js'
import type { DeskInsert } from '../page/desk-insert.js'
import type { PagedTables } from '../page/tables.js'
import type { AtDesk } from './at-desk.js'
import type { Connection } from './connection.js'
import type { FastPath } from './fast-path.js'
import type { Inserted } from './insert.js'
import type { Reader } from './read.js'
import { scripts } from './scripts.js'
import { handleOf } from './ticket.js'

interface Parts {
  readonly connection: Connection
  readonly fastPath: FastPath
  readonly atDesk: AtDesk
  readonly deskInsert: DeskInsert
  readonly reader: Reader
  tell(signal: Signal): void
  ask(request: ExchangeRequest): Promise<ExchangeResult>
}

export class Inserting {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async insert(jobs: readonly NewJob[]): Promise<InsertResult[]> {
    return (await this.#insert(jobs)) ?? this.#parts.deskInsert.insert(jobs)
  }

  /** Undefined where the desk is not to do it: nothing was written. */
  async insertIf(
    mayDo: (tables: PagedTables) => boolean,
    jobs: readonly NewJob[],
  ): Promise<InsertResult[] | undefined> {
    return (await this.#insert(jobs)) ?? this.#insertAtDesk(mayDo, jobs)
  }

  /** Undefined for the desk. */
  async #insert(jobs: readonly NewJob[]): Promise<InsertResult[] | undefined> {
    if (jobs.length === 0) return []
    const { fastPath, ask } = this.#parts
    const inserted = await fastPath.insert(jobs, ask)
    if (inserted === undefined) return undefined
    this.#tellOf(inserted)
    if (typeof inserted.given !== 'string') void this.#retract(inserted.given, jobs)
    return this.#withStates(jobs, inserted.results)
  }

  #tellOf({ ready, soonest }: Inserted): void {
    if (ready.size > 0) this.#parts.tell({ type: 'ready', queues: ready })
    if (soonest !== undefined) this.#parts.tell({ type: 'due', delay: soonest })
  }

  /** If the process that jobs were given to does not hear of it. If we fail too, the lease gives them back. */
  async #retract(given: readonly [ear: string, claim: string], jobs: readonly NewJob[]): Promise<void> {
    const { connection, tell } = this.#parts
    const retracted = await connection.run(scripts.retract, given, { durable: false }).catch(() => 0)
    if (retracted !== 0) tell({ type: 'ready', queues: new Set(jobs.map(({ queue }) => queue)) })
  }

  /** Of jobs that stood already it is asked in which state. */
  async #withStates(jobs: readonly NewJob[], results: InsertResult[]): Promise<InsertResult[]> {
    const ids = jobs.filter((_, i) => results[i]?.status === 'duplicate').map(({ id }) => id)
    if (ids.length === 0) return results
    const records = await this.#parts.reader.get(ids)
    const states = new Map(ids.map((id, i) => [id, records[i]?.state]))
    return results.map((result, i) =>
      result.status === 'duplicate' ? { ...result, state: states.get((jobs[i] as NewJob).id) } : result,
    )
  }

  async #insertAtDesk(
    mayDo: (tables: PagedTables) => boolean,
    jobs: readonly NewJob[],
  ): Promise<InsertResult[] | undefined> {
    const { atDesk, reader } = this.#parts
    const stubs = await reader.ask<readonly number[]>(
      'stubs',
      jobs.map(({ id }) => handleOf(id)),
    )
    const rest = jobs.filter((_, i) => stubs[i] === 0)
    const results = await atDesk.work((tables, now) =>
      mayDo(tables) ? insert(tables, rest, now) : undefined,
    )
    const inserted = results?.values()
    return inserted && stubs.map((stub) => (stub === 1 ? moved : (inserted.next().value as InsertResult)))
  }
}

/** Of a job that has moved to another shard. */
const moved: InsertResult = { status: 'duplicate', state: undefined }

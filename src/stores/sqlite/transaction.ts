import type { Clock } from '../../core/clock.js'
import type { NewJob } from '../../core/job.js'
import type {
  Held,
  InsertResult,
  Settlement,
  SettleResult,
  Signal,
  StoreTransaction,
} from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import type { ConnectionOptions, Database } from '../../databases/sqlite/connection.js'
import { type Transaction, Transactions } from '../../databases/sqlite/transactions.js'
import { makeDoomMark } from './doom.js'
import { makeWriteHeld, makeWriteReport } from './extend.js'
import { makeInserting, type ToldOfInserts } from './inserting.js'
import { makeRemove, makeSettle } from './settle.js'

type Desk = ReturnType<typeof makeDesk>

/** Transactions of handlers. */
export class HandlerTransactions {
  readonly #transactions: Transactions<Desk>
  readonly #tell: (signal: Signal) => void

  /** `othersFirst`: resolves when the writes that wait on the other connection are through. */
  constructor(
    options: ConnectionOptions,
    clock: Clock,
    tell: (signal: Signal) => void,
    othersFirst: () => Promise<void>,
  ) {
    this.#transactions = new Transactions(options, (db) => makeDesk(db, clock), othersFirst)
    this.#tell = tell
  }

  /** Inserts into the one that is open, when `db` is what it is written with. */
  insertInto(db: unknown): ((jobs: readonly NewJob[]) => InsertResult[]) | undefined {
    return this.#transactions.deskOf(db)?.insertAtOnce
  }

  async begin(): Promise<StoreTransaction> {
    return new HandlerTransaction(await this.#transactions.begin(), this.#tell)
  }

  /** One that is still open is rolled back. */
  close(): Promise<void> {
    return this.#transactions.close()
  }
}

class HandlerTransaction implements StoreTransaction {
  readonly tx: Database
  readonly #transaction: Transaction<Desk>
  readonly #tell: (signal: Signal) => void

  constructor(transaction: Transaction<Desk>, tell: (signal: Signal) => void) {
    this.tx = transaction.desk.db
    this.#transaction = transaction
    this.#tell = tell
  }

  async settle(worker: string, settlement: Settlement): Promise<SettleResult> {
    return this.#commit((desk) => desk.settle(worker, settlement))
  }

  async report(worker: string, held: Held): Promise<'applied' | 'lost'> {
    return this.#commit((desk) => desk.report(worker, held))
  }

  async rollback(): Promise<void> {
    this.#transaction.rollback()
  }

  #commit<R extends string>(write: (desk: Desk) => R): R {
    let result: R | undefined
    const committed = this.#transaction.commit((desk) => {
      result = write(desk)
      if (result === 'lost') return false
      desk.writeAll()
      return true
    })
    if (committed) this.#transaction.desk.tellAll(this.#tell)
    return result as R
  }
}

/** The verbs that a transaction needs, over its connection. */
function makeDesk(db: Database, clock: Clock) {
  const news = new News()
  const { tables, insert, insertAtOnce, places, steps, ...others } = makeInserting(db, clock, news)
  const writeReport = makeWriteReport(tables, steps)
  const remove = makeRemove(tables)
  const doom = makeDoomMark(tables)
  const parts = { ...others, insert, places, remove, writeReport, doom, signals: news }
  const settleAll = makeSettle(tables, parts)
  const writeHeld = makeWriteHeld(tables, writeReport, insert)

  return {
    db,
    insertAtOnce,
    settle,
    report,
    writeAll,
    tellAll: (tell: (signal: Signal) => void) => news.tellAll(tell),
  }

  function settle(worker: string, settlement: Settlement): SettleResult {
    news.add({ type: 'settled', settlements: [settlement] })
    return settleAll(worker, [settlement], clock.now())[0] as SettleResult
  }

  function report(worker: string, held: Held): 'applied' | 'lost' {
    const num = tables.workerNumber(worker)
    if (num === undefined || writeHeld(num, held) === undefined) return 'lost'
    news.add({ type: 'reported', held: [held] })
    return 'applied'
  }

  function writeAll(): void {
    places.write()
    tables.write()
  }
}

/** Told when the transaction has committed. */
class News implements ToldOfInserts {
  #signals: Signal[] = []
  #queues = new Set<string>()

  ready(queue: string): void {
    this.#queues.add(queue)
  }

  due(delay: number): void {
    this.add({ type: 'due', delay })
  }

  breaker(job: string, phase: BreakerPhase): void {
    this.add({ type: 'breaker', job, phase })
  }

  quarantine(job: string, on: boolean): void {
    this.add({ type: 'quarantine', job, on })
  }

  add(signal: Signal): void {
    this.#signals.push(signal)
  }

  tellAll(tell: (signal: Signal) => void): void {
    const queues = this.#queues
    const signals = this.#signals
    this.#queues = new Set()
    this.#signals = []
    if (queues.size > 0) tell({ type: 'ready', queues })
    for (const signal of signals) tell(signal)
  }
}

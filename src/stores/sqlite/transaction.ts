/**
 * Transactions of handlers, on a connection of their own beside the one that everything else goes over. There is one
 * at a time: SQLite has one writer. The connection is kept after a commit, when its handler has returned. After
 * anything else it is closed, so that a handler that goes on has nothing left to write with, least of all the
 * transaction of another.
 */
import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
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
import {
  type ConnectionOptions,
  closed,
  type Database,
  openBeside,
  patiently,
  storeError,
} from '../../databases/sqlite/connection.js'
import { makeDoomMark } from './doom.js'
import { makeWriteHeld, makeWriteReport } from './extend.js'
import { makeInserting, type ToldOfInserts } from './inserting.js'
import { makeRemove, makeSettle } from './settle.js'

type Desk = ReturnType<typeof makeDesk>

export class Transactions {
  readonly #options: ConnectionOptions
  readonly #clock: Clock
  readonly #tell: (signal: Signal) => void
  readonly #othersFirst: () => Promise<void>
  /** Where the next one is written, if there is such a connection already. */
  #desk: Desk | undefined
  /** In line for their turn, behind the one that has it. */
  readonly #line: (() => void)[] = []
  #inUse = false
  #closed = false

  /** `othersFirst`: resolves when the writes that wait on the other connection are through. */
  constructor(
    options: ConnectionOptions,
    clock: Clock,
    tell: (signal: Signal) => void,
    othersFirst: () => Promise<void>,
  ) {
    this.#options = options
    this.#clock = clock
    this.#tell = tell
    this.#othersFirst = othersFirst
  }

  /** Inserts into the one that is open, when `db` is what it is written with. */
  insertInto(db: unknown): ((jobs: readonly NewJob[]) => InsertResult[]) | undefined {
    return this.#desk?.db === db ? this.#desk?.insertAtOnce : undefined
  }

  async begin(): Promise<StoreTransaction> {
    const { file, busyTimeout } = this.#options
    if (file === ':memory:') throw notAFile()
    await this.#turn()
    try {
      // One transaction after the other would keep leases from being renewed.
      await this.#othersFirst()
      if (this.#closed) throw closed()
      const desk = this.#desk ?? makeDesk(await openBeside(this.#options), this.#clock, this.#tell)
      this.#desk = desk
      await patiently(busyTimeout, () => desk.db.exec('BEGIN IMMEDIATE'))
      return new Transaction(desk, (how) => this.#ended(desk, how))
    } catch (error) {
      this.#next()
      throw error
    }
  }

  /** One that is still open is rolled back. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#desk !== undefined) await giveUp(this.#desk.db, this.#options.busyTimeout)
  }

  #ended(desk: Desk, how: 'committed' | 'given up'): void {
    if (how === 'committed' && !this.#closed) return this.#next()
    this.#desk = undefined
    void giveUp(desk.db, this.#options.busyTimeout).then(() => this.#next())
  }

  /** Resolves when it is the only one. */
  #turn(): Promise<void> {
    if (!this.#inUse) {
      this.#inUse = true
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(start), 1)
        reject(tooLong(this.#options.busyTimeout))
      }, this.#options.busyTimeout)
      this.#line.push(start)
    })
  }

  #next(): void {
    const start = this.#line.shift()
    if (start === undefined) this.#inUse = false
    else start()
  }
}

class Transaction implements StoreTransaction {
  readonly tx: Database
  readonly #desk: Desk
  readonly #ended: (how: 'committed' | 'given up') => void
  #isOver = false

  constructor(desk: Desk, ended: (how: 'committed' | 'given up') => void) {
    this.tx = desk.db
    this.#desk = desk
    this.#ended = ended
  }

  async settle(worker: string, settlement: Settlement): Promise<SettleResult> {
    return this.#commit(() => this.#desk.settle(worker, settlement))
  }

  async report(worker: string, held: Held): Promise<'applied' | 'lost'> {
    return this.#commit(() => this.#desk.report(worker, held))
  }

  async rollback(): Promise<void> {
    this.#end('given up')
  }

  #commit<R extends string>(write: () => R): R {
    if (this.#isOver) throw over()
    try {
      if (!this.tx.inTransaction) throw this.tx.open ? endedByHandler() : connectionClosed()
      const result = write()
      if (result === 'lost') {
        this.#end('given up')
        return result
      }
      this.#desk.commit()
      this.#end('committed')
      this.#desk.tellAll()
      return result
    } catch (error) {
      this.#end('given up')
      throw storeError(error)
    }
  }

  #end(how: 'committed' | 'given up'): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ended(how)
  }
}

/** The verbs that a transaction needs, over its connection. */
function makeDesk(db: Database, clock: Clock, tell: (signal: Signal) => void) {
  const news = new News()
  const { tables, insert, insertAtOnce, places, steps, ...others } = makeInserting(db, clock, news)
  const writeReport = makeWriteReport(tables, steps)
  const remove = makeRemove(tables)
  const doom = makeDoomMark(tables)
  const parts = { ...others, insert, places, remove, writeReport, doom, signals: news }
  const settleAll = makeSettle(tables, parts)
  const writeHeld = makeWriteHeld(tables, writeReport, insert)

  return { db, insertAtOnce, settle, report, commit, tellAll: () => news.tellAll(tell) }

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

  function commit(): void {
    places.write()
    tables.write()
    db.exec('COMMIT')
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

/** A statement that a handler is still reading from keeps a connection from being closed, and its lock with it. */
async function giveUp(db: Database, most: number): Promise<void> {
  const start = performance.now()
  while (db.open) {
    try {
      if (db.inTransaction) db.exec('ROLLBACK')
      db.close()
    } catch {
      if (performance.now() - start > most) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

function over(): MillraceError {
  return new MillraceError('STORE_REFUSED', 'the transaction is over; begin another one')
}

function endedByHandler(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the handler ended its transaction by itself; leave COMMIT and ROLLBACK to the end of the handler, and throw to roll back',
    { field: 'tx' },
  )
}

function connectionClosed(): MillraceError {
  return new MillraceError(
    'CLOSED',
    "the transaction's connection is closed: the store was, or the handler closed it",
  )
}

function notAFile(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    "a store in ':memory:' has one connection and no transactions for handlers; give it a file",
    { field: 'file', value: ':memory:' },
  )
}

function tooLong(limit: number): MillraceError {
  return new MillraceError(
    'STORE_BUSY',
    `other handlers of this process had their transactions open for ${limit} ms; ask for \`tx\` late and end soon after, or raise busyTimeout`,
    { field: 'busyTimeout', limit },
  )
}

/**
 * Transactions on a connection of their own, beside the one that everything else goes over. There is one at a time: SQLite
 * has one writer. The connection is kept after a commit. After anything else it is closed, so that a handler that goes on
 * has nothing left to write with, least of all the transaction of another.
 */
import { MillraceError } from '../../core/errors.js'
import {
  type ConnectionOptions,
  closed,
  type Database,
  openBeside,
  patiently,
  storeError,
} from './connection.js'

/** The connection, with what is done over it. */
interface Over {
  readonly db: Database
}

export class Transactions<Desk extends Over> {
  readonly #options: ConnectionOptions
  readonly #makeDesk: (db: Database) => Desk
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
    makeDesk: (db: Database) => Desk,
    othersFirst: () => Promise<void>,
  ) {
    this.#options = options
    this.#makeDesk = makeDesk
    this.#othersFirst = othersFirst
  }

  /** That of the one that is open, when `db` is what it is written with. */
  deskOf(db: unknown): Desk | undefined {
    return this.#desk?.db === db ? this.#desk : undefined
  }

  async begin(): Promise<Transaction<Desk>> {
    const { file, busyTimeout } = this.#options
    if (file === ':memory:') throw notAFile()
    await this.#turn()
    try {
      // One transaction after the other would keep leases from being renewed.
      await this.#othersFirst()
      if (this.#closed) throw closed()
      const desk = this.#desk ?? this.#makeDesk(await openBeside(this.#options))
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

/** Begun; over after `commit` or `rollback`. */
export class Transaction<Desk extends Over> {
  readonly desk: Desk
  readonly #ended: (how: 'committed' | 'given up') => void
  #isOver = false

  constructor(desk: Desk, ended: (how: 'committed' | 'given up') => void) {
    this.desk = desk
    this.#ended = ended
  }

  /** `last` is written at the end; when it answers false, nothing is committed. True when it was. */
  commit(last: (desk: Desk) => boolean = () => true): boolean {
    if (this.#isOver) throw over()
    const { db } = this.desk
    try {
      if (!db.inTransaction) throw db.open ? endedByHandler() : connectionClosed()
      const isWanted = last(this.desk)
      if (isWanted) db.exec('COMMIT')
      this.#end(isWanted ? 'committed' : 'given up')
      return isWanted
    } catch (error) {
      this.#end('given up')
      throw storeError(error)
    }
  }

  rollback(): void {
    this.#end('given up')
  }

  #end(how: 'committed' | 'given up'): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ended(how)
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

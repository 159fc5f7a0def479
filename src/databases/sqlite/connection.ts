/**
 * One connection per process and group commit: every write of one turn of the event loop goes into one
 * transaction, and its promise resolves after COMMIT. A file that another process is writing is waited for
 * without blocking the event loop.
 */
import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type BetterSqlite3 from 'better-sqlite3'
import { type ErrorCode, MillraceError } from '../../core/errors.js'
import { commit } from '../../system/turn.js'
import { migrate, type SchemaPlan } from './migrate.js'

export type Database = BetterSqlite3.Database

export interface ConnectionOptions {
  readonly file: string
  readonly synchronous: 'full' | 'normal'
  /** How long a write waits for other processes before it fails with STORE_BUSY. */
  readonly busyTimeout: number
  readonly integrityCheck: 'quick' | 'full' | 'off'
}

interface Write {
  readonly work: () => unknown
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

export class Connection {
  readonly db: Database
  readonly #begin: BetterSqlite3.Statement
  readonly #commit: BetterSqlite3.Statement
  readonly #rollback: BetterSqlite3.Statement
  readonly #busyTimeout: number
  #waiting: Write[] = []
  #flushing = false
  /** When the oldest waiting write first met a busy file. */
  #busySince: number | undefined
  #afterCommit: (() => void)[] = []
  /** Runs at the end of each transaction, inside it. */
  beforeCommit: () => void = () => {}
  /** Runs when a transaction was rolled back. */
  onRollback: () => void = () => {}

  constructor(db: Database, options: ConnectionOptions) {
    this.db = db
    this.#busyTimeout = options.busyTimeout
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#rollback = db.prepare('ROLLBACK')
  }

  /** Runs `work` inside this turn's transaction. */
  write<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!this.db.open) return reject(closed())
      this.#waiting.push({ work, resolve, reject })
      this.#schedule()
    })
  }

  /** Resolves when what waits at this moment has had its turn. */
  async waitedFor(): Promise<void> {
    if (this.#waiting.length > 0) await this.write(() => {}).catch(() => {})
  }

  /** Called by work that is being written: `fn` runs once the transaction has committed, never if it has not. */
  afterCommit(fn: () => void): void {
    this.#afterCommit.push(fn)
  }

  /** Writes what is waiting, then closes the file. */
  async close(): Promise<void> {
    while (this.#waiting.length > 0) await new Promise<void>((resolve) => setTimeout(resolve, 1))
    if (this.db.open) this.db.close()
  }

  #schedule(): void {
    if (this.#flushing) return
    this.#flushing = true
    commit(() => this.#flush())
  }

  #flush(): void {
    const writes = this.#waiting
    try {
      this.#begin.run()
    } catch (error) {
      return this.#notBegun(error)
    }
    this.#busySince = undefined
    this.#waiting = []
    this.#flushing = false
    this.#transact(writes)
  }

  /** Busy: try again soon, apart from the others that wait. Anything else: nobody's write can happen now. */
  #notBegun(error: unknown): void {
    const now = performance.now()
    this.#busySince ??= now
    if (isBusy(error) && now - this.#busySince < this.#busyTimeout) {
      setTimeout(() => this.#flush(), 1 + Math.random() * Math.min(20, 1 + (now - this.#busySince) / 4))
      return
    }
    const writes = this.#waiting
    this.#waiting = []
    this.#flushing = false
    this.#busySince = undefined
    for (const write of writes) write.reject(storeError(error))
  }

  #transact(writes: readonly Write[]): void {
    const results: unknown[] = []
    try {
      for (const write of writes) results.push(write.work())
      this.beforeCommit()
      this.#commit.run()
    } catch (error) {
      this.#undo()
      if (writes.length === 1) return writes[0]?.reject(storeError(error))
      // One of them is at fault: each again by itself, so that it fails alone.
      return this.#oneByOne(writes)
    }
    const effects = this.#afterCommit
    this.#afterCommit = []
    for (let i = 0; i < writes.length; i++) writes[i]?.resolve(results[i] as never)
    for (const effect of effects) effect()
  }

  #oneByOne(writes: readonly Write[]): void {
    for (const write of writes) {
      try {
        this.#begin.run()
      } catch {
        // Another process was quicker: this one waits its turn again, with all the patience there is.
        this.#waiting.push(write)
        this.#schedule()
        continue
      }
      this.#transact([write])
    }
  }

  #undo(): void {
    this.#afterCommit = []
    // A full disk or an I/O error may have rolled back already.
    try {
      if (this.db.inTransaction) this.#rollback.run()
    } finally {
      this.onRollback()
    }
  }
}

export async function openConnection(options: ConnectionOptions, plan: SchemaPlan): Promise<Connection> {
  refuseNetworkFile(options.file)
  const Database = await loadDriver()
  let db: Database
  try {
    db = new Database(options.file, { timeout: 0 })
  } catch (error) {
    throw new MillraceError(
      'STORE_REFUSED',
      `cannot open the SQLite file '${options.file}': ${text(error)}`,
      {
        field: 'file',
        value: options.file,
        cause: error,
      },
    )
  }
  try {
    await prepare(db, options, plan)
    return new Connection(db, options)
  } catch (error) {
    db.close()
    throw storeError(error)
  }
}

/** Another connection to a file that is open already. */
export async function openBeside({ file, synchronous, busyTimeout }: ConnectionOptions): Promise<Database> {
  const Database = await loadDriver()
  return patiently(busyTimeout, () => {
    const db = new Database(file, { timeout: 0 })
    db.pragma(`synchronous = ${synchronous}`)
    db.pragma(checkpointing)
    return db
  })
}

const checkpointing = 'wal_autocheckpoint = 4000'

async function prepare(db: Database, options: ConnectionOptions, plan: SchemaPlan): Promise<void> {
  // Another process may be switching the file to WAL or migrating it at this moment.
  await patiently(options.busyTimeout, () => {
    refuseOldLibrary(db)
    const mode = db.pragma('journal_mode = wal', { simple: true })
    const inMemory = options.file === ':memory:' || options.file === ''
    if (mode !== 'wal' && !inMemory) {
      throw new MillraceError(
        'STORE_REFUSED',
        `'${options.file}' cannot use WAL (journal_mode stays '${mode}'); put it on a local disk`,
      )
    }
    db.pragma(`synchronous = ${options.synchronous}`)
    db.pragma('cache_size = -65536')
    db.pragma('temp_store = memory')
    db.pragma('foreign_keys = off')
    db.pragma(checkpointing)
    migrate(db, options.file, plan)
  })
  if (options.integrityCheck !== 'off') {
    const check = options.integrityCheck === 'full' ? 'integrity_check(1)' : 'quick_check(1)'
    const verdict = db.pragma(check, { simple: true })
    if (verdict !== 'ok') {
      throw new MillraceError(
        'STORE_CORRUPT',
        `'${options.file}' is damaged: ${verdict}; restore it from a backup, or rescue it with 'sqlite3 .recover'`,
      )
    }
  }
}

/** Tries again while other processes hold the file. */
export async function patiently<T>(most: number, work: () => T | Promise<T>): Promise<T> {
  const start = performance.now()
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isBusy(error) || performance.now() - start > most) throw storeError(error)
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20))
    }
  }
}

async function loadDriver(): Promise<typeof BetterSqlite3> {
  try {
    return (await import('better-sqlite3')).default
  } catch (error) {
    throw new MillraceError(
      'DRIVER_MISSING',
      'the SQLite engine needs its driver: npm install better-sqlite3',
      { cause: error },
    )
  }
}

/** SQLite before 3.51.3 can corrupt a WAL file that two connections reset at the same time. */
function refuseOldLibrary(db: Database): void {
  const version = db.prepare('SELECT sqlite_version()').pluck().get() as string
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major * 1e6 + minor * 1e3 + patch < 3_051_003) {
    throw new MillraceError(
      'STORE_REFUSED',
      `SQLite ${version} has a WAL bug that can corrupt shared files; install better-sqlite3 12.11 or newer`,
      {
        field: 'sqlite_version',
        value: version,
        limit: '3.51.3',
      },
    )
  }
}

/** Numbers of NFS, SMB, CIFS, SMB2, 9P and AFS: their locks do not hold what WAL needs. */
const networkTypes = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x5346414f])

function refuseNetworkFile(file: string): void {
  if (file === ':memory:' || file === '') return
  let type: number
  try {
    type = statfsSync(dirname(file)).type >>> 0
  } catch {
    return // the folder does not exist; opening says so better
  }
  if (networkTypes.has(type)) {
    throw new MillraceError(
      'STORE_REFUSED',
      `'${file}' is on a network file system, where SQLite loses data; use a local disk, or PostgreSQL`,
      { field: 'file', value: file },
    )
  }
}

function isBusy(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'))
}

export function storeError(error: unknown): unknown {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string' || !code.startsWith('SQLITE_')) return error
  const [mapped, advice] = advise(code)
  return new MillraceError(mapped, `SQLite: ${text(error)} (${code}); ${advice}`, { cause: error })
}

function advise(code: string): [ErrorCode, string] {
  if (code.startsWith('SQLITE_BUSY'))
    return ['STORE_BUSY', 'another process held the file for too long; nothing was written']
  if (code === 'SQLITE_FULL') return ['STORE_FULL', 'nothing was written; free some disk space and try again']
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB')
    return ['STORE_CORRUPT', 'restore the file from a backup']
  if (code.startsWith('SQLITE_READONLY')) return ['STORE_REFUSED', 'the file or its folder is not writable']
  return ['STORE_FAILED', 'nothing was written']
}

export function closed(): MillraceError {
  return new MillraceError('CLOSED', 'the store is closed')
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

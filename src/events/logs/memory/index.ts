import type { Clock } from '../../../core/clock.js'
import { MillraceError } from '../../../core/errors.js'
import { noUnknown } from '../../../core/options.js'
import { attempt } from '../../../system/attempt.js'
import { systemClock } from '../../../system/clock.js'
import type {
  AdvanceRequest,
  AllPage,
  AllQuery,
  Append,
  AppendResult,
  DeclaredProjection,
  EventLog,
  Held,
  HoldRequest,
  LogCapabilities,
  LogTransaction,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
  SnapshotRecord,
  StreamPage,
  StreamQuery,
  Surplus,
  SurplusQuery,
} from '../../log.js'
import { Events } from './events.js'
import { type Change, Projections } from './projections.js'
import { MemoryTransaction, transactionOf } from './transaction.js'
import { Turns } from './turns.js'

export interface MemoryLogOptions {
  /** The log's clock; tests pass a virtual one. @default the system's */
  readonly clock?: Clock
}

export function memoryLog(options: MemoryLogOptions = {}): MemoryLog {
  return new MemoryLog(options)
}

/**
 * Events in this process alone; they end with it. The model of what every log does: a verb does all of its work before
 * it returns its promise, unless a transaction is open. There is one at a time, as on SQLite.
 */
export class MemoryLog implements EventLog {
  readonly capabilities: LogCapabilities = {
    engine: 'memory',
    durable: false,
    shared: false,
    synchronous: true,
  }
  readonly #clock: Clock
  readonly #events = new Events()
  readonly #projections = new Projections()
  readonly #snapshots = new Map<string, Map<string, SnapshotRecord>>()
  readonly #turns = new Turns()
  readonly #listeners = new Set<() => void>()
  #closed = false

  constructor(options: MemoryLogOptions = {}) {
    noUnknown(options, ['clock'], 'memoryLog')
    this.#clock = options.clock ?? systemClock
  }

  async open(): Promise<void> {
    this.#closed = false
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  append(appends: readonly Append[]): Promise<AppendResult[]>
  append(appends: readonly Append[], tx: unknown): AppendResult[] | Promise<AppendResult[]>
  append(appends: readonly Append[], tx?: unknown): AppendResult[] | Promise<AppendResult[]> {
    const add = () => appends.map((append) => this.#events.append(append, this.#clock.now()))
    if (tx === undefined) return this.#write(() => this.#committed(add))
    this.#refuseWhenClosed()
    transactionOf(tx)
    return add()
  }

  async stream(query: StreamQuery): Promise<StreamPage> {
    this.#refuseWhenClosed()
    return this.#events.stream(query)
  }

  async all(query: AllQuery): Promise<AllPage> {
    this.#refuseWhenClosed()
    return this.#events.all(query)
  }

  async end(): Promise<number> {
    this.#refuseWhenClosed()
    return this.#events.end
  }

  async begin(): Promise<LogTransaction> {
    this.#refuseWhenClosed()
    await this.#turns.take()
    return new MemoryTransaction((commits) => {
      const before = this.#events.end
      if (commits) this.#events.commit()
      else this.#events.rollback()
      this.#turns.release()
      if (this.#events.end > before) this.#tell()
    })
  }

  async snapshot(stream: string, name: string): Promise<SnapshotRecord | undefined> {
    this.#refuseWhenClosed()
    return this.#snapshots.get(stream)?.get(name)
  }

  keepSnapshot(snapshot: SnapshotRecord): Promise<void> {
    const { stream, name } = snapshot
    return this.#write(() => {
      if (!this.#events.has(stream, snapshot.version)) return
      const kept = this.#snapshots.get(stream) ?? new Map<string, SnapshotRecord>()
      this.#snapshots.set(stream, kept)
      if (!isNewer(kept.get(name), snapshot)) kept.set(name, snapshot)
    })
  }

  declare(projection: NewProjection, tx?: unknown): Promise<DeclaredProjection> {
    return this.#change(() => this.#projections.declare(projection, this.#clock.now()), tx)
  }

  forget(name: string, tx?: unknown): Promise<void> {
    return this.#change(() => this.#projections.forget(name), tx)
  }

  async projections(): Promise<ProjectionRecord[]> {
    this.#refuseWhenClosed()
    return this.#projections.list(this.#clock.now())
  }

  /** Leases do not wait for transactions: one that is long must be able to renew its own. */
  async hold(request: HoldRequest): Promise<Held | undefined> {
    this.#refuseWhenClosed()
    return this.#projections.hold(request, this.#clock.now())
  }

  advance(request: AdvanceRequest, tx?: unknown): Promise<'advanced' | 'lost'> {
    return this.#change(() => this.#projections.advance(request, this.#clock.now()), tx)
  }

  rebuild(change: RebuildChange, tx?: unknown): Promise<ProjectionRecord> {
    return this.#change(() => this.#projections.rebuild(change, this.#clock.now()), tx)
  }

  async surplus(query: SurplusQuery): Promise<Surplus> {
    this.#refuseWhenClosed()
    const needed = (stream: string) => this.#snapshots.get(stream)?.values() ?? []
    const last = (stream: string) => Math.min(...Array.from(needed(stream), ({ version }) => version))
    return this.#events.surplus(query, this.#clock.now(), last)
  }

  remove(positions: readonly number[]): Promise<void> {
    return this.#write(() => this.#events.remove(new Set(positions)))
  }

  erase(stream: string, limit: number): Promise<boolean> {
    return this.#write(() => {
      this.#snapshots.delete(stream)
      return this.#events.erase(stream, limit)
    })
  }

  subscribe(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  /** All of it, or nothing. */
  #committed<T>(work: () => T): T {
    const before = this.#events.end
    try {
      const result = work()
      this.#events.commit()
      if (this.#events.end > before) this.#tell()
      return result
    } catch (error) {
      this.#events.rollback()
      throw error
    }
  }

  async #change<T>(change: () => Change<T>, tx: unknown): Promise<T> {
    if (tx === undefined) return this.#write(() => applied(change()))
    this.#refuseWhenClosed()
    const transaction = transactionOf(tx)
    const { answer, apply } = change()
    transaction.add(apply)
    return answer
  }

  async #write<T>(work: () => T): Promise<T> {
    this.#refuseWhenClosed()
    return this.#turns.write(work)
  }

  #tell(): void {
    for (const listener of this.#listeners) attempt(listener, undefined)
  }

  #refuseWhenClosed(): void {
    if (this.#closed) throw new MillraceError('CLOSED', 'the event log is closed')
  }
}

function applied<T>({ answer, apply }: Change<T>): T {
  apply()
  return answer
}

/** Of the form first: a process of an older deploy takes none back. */
function isNewer(kept: SnapshotRecord | undefined, { schema, version }: SnapshotRecord): boolean {
  if (kept === undefined) return false
  return kept.schema === schema ? kept.version > version : kept.schema > schema
}

import { MillraceError, show } from '../core/errors.js'
import { attempt } from '../system/attempt.js'
import {
  type BatchCollectorOptions,
  type CollectorCloseOptions,
  type CompiledCollector,
  compileCollector,
  compileCollectorClose,
} from './batch-options.js'
import { measure } from './options.js'
import { withRetries } from './retry.js'
import { quiet, Waiters } from './waiters.js'

/**
 * `close` could not flush everything: here are the rows that are left, in their order. When `grace` ended during
 * a flush, its rows are the first of them, and only the destination knows whether they arrived.
 */
export class RowsLeftError<Row> extends MillraceError {
  readonly rows: readonly Row[]

  constructor(collector: string, rows: readonly Row[], why: string, cause: unknown) {
    const text = `collector '${collector}' was closed with ${rows.length} rows left: ${why}; they are in the \`rows\` of this error`
    super('CLOSED', text, { cause })
    this.name = 'RowsLeftError'
    this.rows = rows
  }
}

/** A row and the promise of its `add`. */
interface Held<Row> {
  readonly row: Row
  readonly bytes: number
  /** Counts all rows ever added, so that `flush` can say up to where. */
  readonly order: number
  /** Monotonic milliseconds. */
  readonly since: number
  readonly promise: Promise<void>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Collects rows and flushes them in batches: when `size` or `bytes` is reached, when a row has waited for
 * `interval`, on `flush()` and on `close()`. Rows keep their order, and one batch is flushed at a time.
 *
 * A row is outside, buffered, in the batch under way, or settled, and moves in that order. Rows outside found
 * no room; nothing holds them but their callers' awaits. No row is lost: a failed batch is tried again as it
 * is; when its attempts are spent its rows go to `onError`, or back to the caller of `close`, and their `add`
 * rejects.
 */
export class BatchCollector<Row> {
  readonly name: string
  readonly #options: CompiledCollector<Row>
  readonly #outside: Held<Row>[] = []
  #buffer: Held<Row>[] = []
  #bufferBytes = 0
  #batch: Held<Row>[] = []
  #batchBytes = 0
  #added = 0
  /** Rows up to this one are due, whatever the size of their batch. */
  #dueTo = 0
  #disarm: (() => void) | undefined
  readonly #untilReady = new Waiters()
  readonly #untilEmpty = new Waiters()
  readonly #abort = new AbortController()
  #closed = false
  /** The batch under way failed, and somebody else has its rows. */
  #handedOver = false
  #left: Row[] = []
  #whyLeft: { readonly why: string; readonly cause: unknown } | undefined

  constructor(options: BatchCollectorOptions<Row>) {
    this.#options = compileCollector(options)
    this.name = this.#options.name
  }

  /** Rows held, those being flushed included. */
  get size(): number {
    return this.#buffer.length + this.#batch.length
  }

  get isFull(): boolean {
    return this.#outside.length > 0 || !this.#hasRoom(1)
  }

  /**
   * Resolves when the row's batch is flushed, and rejects when that failed for good. A source that does not
   * wait for each batch awaits `ready()` before each row instead.
   */
  add(row: Row): Promise<void> {
    let held: Held<Row>
    try {
      if (this.#closed) throw this.#refusal()
      held = this.#hold(row)
    } catch (error) {
      return Promise.reject(error)
    }
    this.#outside.push(held)
    this.#look()
    return held.promise
  }

  /** Resolves at once, or when there is room. Others may be quicker; then `add` waits for room itself. */
  ready(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#closed) return quiet(Promise.reject(this.#refusal()))
    return this.isFull ? this.#untilReady.wait(options.signal) : Promise.resolve()
  }

  /** Flushes all rows that were added before, and rejects with the first error if some failed for good. */
  async flush(): Promise<void> {
    this.#dueTo = this.#added
    const rows = [...this.#batch, ...this.#buffer, ...this.#outside].map((held) => held.promise)
    this.#look()
    for (const settled of await Promise.allSettled(rows)) {
      if (settled.status === 'rejected') throw settled.reason
    }
  }

  /**
   * Takes no more rows and flushes those it has. Rejects with a `RowsLeftError` that gives back what could not
   * be flushed, because attempts were spent or `grace` ended. May be called again to hasten an earlier close.
   */
  async close(options: CollectorCloseOptions = {}): Promise<void> {
    const { grace } = compileCollectorClose(options)
    this.#closed = true
    this.#dueTo = this.#added
    this.#untilReady.reject(this.#refusal())
    this.#look()
    await this.#emptied(grace)
    if (this.#left.length > 0) throw this.#rowsLeft()
  }

  async #emptied(grace: number): Promise<void> {
    if (this.#isEmpty) return
    if (grace === 0) return this.#giveUp(grace)
    const cancel = this.#options.clock.after(grace, () => this.#giveUp(grace))
    await this.#untilEmpty.wait()
    cancel()
  }

  #hold(row: Row): Held<Row> {
    const { sizeOf, clock, onError } = this.#options
    const bytes = measure(sizeOf, row, 'sizeOf()')
    let resolve = () => {}
    let reject = (_: unknown) => {}
    const promise = new Promise<void>((yes, no) => {
      resolve = yes
      reject = no
    })
    // Whoever gets the rows of a failed batch knows of the failure.
    if (onError !== undefined) void quiet(promise)
    return { row, bytes, order: ++this.#added, since: clock.monotonic(), promise, resolve, reject }
  }

  /** What may follow from any change: rows come in, a batch is due, or the next moment to look is set. */
  #look(): void {
    this.#admit()
    if (!this.isFull) this.#untilReady.resolve()
    if (this.#isEmpty) this.#untilEmpty.resolve()
    if (this.#batch.length > 0 || this.#buffer.length === 0) return
    const wait = this.#untilDue()
    if (wait > 0) return this.#lookIn(wait)
    this.#cut()
    void this.#deliver(this.#batch)
  }

  #admit(): void {
    let admitted = 0
    for (const held of this.#outside) {
      if (!this.#hasRoom(held.bytes)) break
      this.#buffer.push(held)
      this.#bufferBytes += held.bytes
      admitted++
    }
    this.#outside.splice(0, admitted)
  }

  /** A row larger than the limit itself fits into an empty collector; elsewhere it could never be flushed. */
  #hasRoom(bytes: number): boolean {
    const { high, highBytes } = this.#options
    if (this.size === 0) return true
    return this.size < high && this.#bufferBytes + this.#batchBytes + bytes <= highBytes
  }

  /** Milliseconds until the buffer must be flushed; 0 or less for now. */
  #untilDue(): number {
    const { size, bytes, interval, clock } = this.#options
    const oldest = this.#buffer[0] as Held<Row>
    const complete = this.#buffer.length >= size || this.#bufferBytes >= bytes || this.#outside.length > 0
    if (complete || oldest.order <= this.#dueTo) return 0
    return oldest.since + interval - clock.monotonic()
  }

  #lookIn(wait: number): void {
    this.#disarm ??= this.#options.clock.after(Math.ceil(wait), () => {
      this.#disarm = undefined
      this.#look()
    })
  }

  /** Takes the next batch from the buffer: as many rows as `size` and `bytes` allow, and always one. */
  #cut(): void {
    this.#disarm?.()
    this.#disarm = undefined
    const { size, bytes } = this.#options
    let rows = 0
    let sum = 0
    for (const held of this.#buffer) {
      if (rows === size || (rows > 0 && sum + held.bytes > bytes)) break
      rows++
      sum += held.bytes
    }
    this.#batch = this.#buffer.splice(0, rows)
    this.#batchBytes = sum
    this.#bufferBytes -= sum
  }

  async #deliver(batch: readonly Held<Row>[]): Promise<void> {
    const { flush, retry, clock } = this.#options
    const { signal } = this.#abort
    try {
      // A copy for each attempt: what a flush does to its array must not reach the next one.
      await withRetries((attempt) => flush(rowsOf(batch), { attempt, signal }), retry, clock, signal)
      if (signal.aborted) return
      for (const held of batch) held.resolve()
    } catch (error) {
      if (signal.aborted) return
      await this.#handOver(batch, error)
    }
    this.#batch = []
    this.#batchBytes = 0
    this.#look()
  }

  /** The rows of a batch that failed for good change hands exactly once: to `close`, or to `onError`. */
  async #handOver(batch: readonly Held<Row>[], error: unknown): Promise<void> {
    this.#handedOver = true
    const told = this.#closed ? this.#keep(batch, error) : this.#tellOnError(error, rowsOf(batch))
    for (const held of batch) held.reject(error)
    await told
    this.#handedOver = false
  }

  #keep(batch: readonly Held<Row>[], error: unknown): void {
    this.#left = this.#left.concat(rowsOf(batch))
    this.#whyLeft = { why: `a flush failed for good with '${textOf(error)}'`, cause: error }
    for (const held of batch) void quiet(held.promise)
  }

  /** A fault of `onError` surfaces as an uncaught error; the rows behind this batch have nothing to do with it. */
  async #tellOnError(error: unknown, rows: Row[]): Promise<void> {
    try {
      await this.#options.onError?.(error, rows)
    } catch (fault) {
      attempt(() => {
        throw fault
      }, undefined)
    }
  }

  #giveUp(grace: number): void {
    const batch = this.#handedOver ? [] : this.#batch
    const rest = [...batch, ...this.#buffer, ...this.#outside.splice(0)]
    this.#batch = this.#buffer = []
    this.#batchBytes = this.#bufferBytes = 0
    this.#disarm?.()
    this.#left = this.#left.concat(rowsOf(rest))
    this.#whyLeft = { why: `the grace of ${grace} ms ended`, cause: this.#whyLeft?.cause }
    const error = this.#rowsLeft()
    for (const held of rest) {
      void quiet(held.promise)
      held.reject(error)
    }
    this.#abort.abort(error)
    this.#untilEmpty.resolve()
  }

  get #isEmpty(): boolean {
    return this.size + this.#outside.length === 0
  }

  #rowsLeft(): RowsLeftError<Row> {
    const { why, cause } = this.#whyLeft ?? { why: '', cause: undefined }
    return new RowsLeftError(this.name, this.#left, why, cause)
  }

  #refusal(): MillraceError {
    return new MillraceError('CLOSED', `collector '${this.name}' is closed and takes no rows`)
  }
}

function rowsOf<Row>(batch: readonly Held<Row>[]): Row[] {
  return batch.map((held) => held.row)
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : show(error)
}

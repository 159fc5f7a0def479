import type { Clock } from '../core/clock.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { defaults, integer, invalid, name, noUnknown } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import { callable } from './options.js'
import { compileRetry, type FlushRetryOptions } from './retry.js'

/** What `flush` gets besides the rows. */
export interface FlushContext {
  /** From 1. The rows of a later attempt are those of the first, in the same order. */
  readonly attempt: number
  /** Aborts when the grace of `close` ends. */
  readonly signal: AbortSignal
}

export interface BatchCollectorOptions<Row> {
  /** Writes one batch, all of it or none: when it throws, the same rows come again. One runs at a time. */
  readonly flush: (rows: Row[], context: FlushContext) => unknown
  /** For error messages. @default 'collector' */
  readonly name?: string
  /** Rows that make a batch. @default 100 */
  readonly size?: number
  /** How long a row waits for its batch to fill: 1 ms or more. @default '1s' */
  readonly interval?: Duration
  /** Bytes that make a batch, as `sizeOf` counts them; no batch has more, unless it is a single row. @default no limit */
  readonly bytes?: number
  /** What a row counts towards `bytes`: a whole number. */
  readonly sizeOf?: (row: Row) => number
  /** How a batch that failed is tried again. @default { attempts: 3 } */
  readonly retry?: FlushRetryOptions
  /**
   * Takes the rows of a batch whose attempts are spent. Without it, nobody has them but the rejected promises
   * of `add`, and one that is not handled ends the process, as Node.js does, rather than lose rows in silence.
   */
  readonly onError?: (error: unknown, rows: Row[]) => unknown
  /** Rows held, those being flushed included; as many batches' worth of `bytes`. @default ten times `size` */
  readonly highWaterMark?: number
  /** Tests pass a virtual one. @default the system's */
  readonly clock?: Clock
}

export interface CollectorCloseOptions {
  /** How long the last flushes may take; then what is left comes back. @default '30s' */
  readonly grace?: Duration
}

export type CompiledCollector<Row> = ReturnType<typeof compileCollector<Row>>

export function compileCollector<Row>(raw: BatchCollectorOptions<Row>) {
  noUnknown(raw, collectorOptions, 'the batch collector')
  const size = integer(raw.size ?? 100, 'size', 1, mostRows)
  const high = integer(raw.highWaterMark ?? 10 * size, 'highWaterMark', size, 1_000 * mostRows)
  const bytes = byteLimit(raw)
  return {
    flush: callable(raw.flush, 'flush', 'a function (rows, { signal }) => promise'),
    name: name(raw.name ?? 'collector', 'name'),
    size,
    // With less, rows that are added in one loop would not meet.
    interval: Math.max(1, milliseconds(raw.interval ?? '1s', 'interval')),
    bytes,
    sizeOf:
      raw.sizeOf === undefined ? undefined : callable(raw.sizeOf, 'sizeOf', 'a function (row) => bytes'),
    retry: compileRetry(raw.retry ?? {}),
    onError:
      raw.onError === undefined ? undefined : callable(raw.onError, 'onError', 'a function (error, rows)'),
    high,
    highBytes: (bytes * high) / size,
    clock: raw.clock ?? systemClock,
  }
}

const mostRows = 1_000_000

const collectorOptions = [
  'flush',
  'name',
  'size',
  'interval',
  'bytes',
  'sizeOf',
  'retry',
  'onError',
  'highWaterMark',
  'clock',
]

function byteLimit(raw: { readonly bytes?: number; readonly sizeOf?: unknown }): number {
  if (raw.bytes === undefined && raw.sizeOf === undefined) return Number.POSITIVE_INFINITY
  if (raw.sizeOf === undefined)
    throw invalid('sizeOf', undefined, 'a function (row) => bytes, to count `bytes` with')
  return integer(raw.bytes as number, 'bytes', 1, Number.MAX_SAFE_INTEGER)
}

export function compileCollectorClose(raw: CollectorCloseOptions) {
  noUnknown(raw, ['grace'], 'close')
  return { grace: milliseconds(raw.grace ?? defaults.grace, 'grace') }
}

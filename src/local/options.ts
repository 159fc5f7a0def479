import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError, show } from '../core/errors.js'
import { defaults, integer, invalid, name, noUnknown, noUnknownIn, oneOf } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import type { CompiledRate } from './rate-gate.js'

/** What `run` gets besides the item. */
export interface LocalContext {
  /** Aborts with the signal that was given to `push`, and when the grace of `close` ends. */
  readonly signal: AbortSignal
}

/** What a push does when there is no room. */
export type Overflow = 'wait' | 'reject' | 'dropOldest'

export interface LocalQueueOptions<Item, Result> {
  /** Does the work of one item. What it throws rejects the promise of that item's push, and nothing else. */
  readonly run: (item: Item, context: LocalContext) => Result | PromiseLike<Result>
  /** For error messages. @default 'local' */
  readonly name?: string
  /** Items that run at the same time. With 1, items of one priority run strictly one after another. @default 1 */
  readonly concurrency?: number
  /** At most `max` starts in any stretch of time as long as `per`. @default no limit */
  readonly rate?: { readonly max: number; readonly per: Duration }
  /**
   * The most that the queue holds, waiting and running together, as streams count. Leave room above
   * `concurrency`, or slots stay empty. @default 1000, or twice the concurrency if that is more
   */
  readonly highWaterMark?: number
  /** A full queue is ready again when it holds no more than this. @default half of highWaterMark */
  readonly lowWaterMark?: number
  /**
   * What an item counts, such as its bytes: a whole number. An item that counts 0 counts 1, so that no queue
   * holds more than `highWaterMark` items. Needs a `highWaterMark` in the same unit. @default each counts 1
   */
  readonly size?: (item: Item) => number
  /** What `push` does when there is no room. @default 'wait' */
  readonly overflow?: Overflow
  /** Tests pass a virtual one. @default the system's */
  readonly clock?: Clock
}

export interface PushOptions {
  /** The larger, the sooner; equal ones in the order of their arrival. @default 0 */
  readonly priority?: number
  /** Takes a push that waits out of the queue; for one that runs, aborts the signal of `run`. */
  readonly signal?: AbortSignal
}

export interface LocalCloseOptions {
  /** Run what waits (true), or reject it now (false). @default true */
  readonly drain?: boolean
  /** How long all that may take; then what waits is rejected, and what runs is aborted. @default '30s' */
  readonly grace?: Duration
}

export type CompiledLocal<Item, Result> = ReturnType<typeof compileLocal<Item, Result>>

export function compileLocal<Item, Result>(raw: LocalQueueOptions<Item, Result>) {
  noUnknown(raw, localOptions, 'the local queue')
  const concurrency = integer(raw.concurrency ?? 1, 'concurrency', 1, bounds.concurrency)
  const high = integer(highWaterMark(raw, concurrency), 'highWaterMark', 1, Number.MAX_SAFE_INTEGER)
  return {
    run: callable(raw.run, 'run', 'a function (item, { signal }) => result'),
    name: name(raw.name ?? 'local', 'name'),
    concurrency,
    rate: raw.rate === undefined ? undefined : compileRate(raw.rate),
    high,
    low: integer(raw.lowWaterMark ?? Math.floor(high / 2), 'lowWaterMark', 0, high - 1),
    size: raw.size === undefined ? undefined : callable(raw.size, 'size', 'a function (item) => number'),
    overflow: oneOf(raw.overflow ?? 'wait', ['wait', 'reject', 'dropOldest'], 'overflow'),
    clock: raw.clock ?? systemClock,
  }
}

const localOptions = [
  'run',
  'name',
  'concurrency',
  'rate',
  'highWaterMark',
  'lowWaterMark',
  'size',
  'overflow',
  'clock',
]

function highWaterMark(
  raw: { readonly highWaterMark?: number; readonly size?: unknown },
  concurrency: number,
): number {
  if (raw.highWaterMark !== undefined) return raw.highWaterMark
  if (raw.size === undefined) return Math.max(1_000, 2 * concurrency)
  throw invalid('highWaterMark', undefined, 'a limit in the unit of `size`, such as 64_000_000 for bytes')
}

function compileRate(raw: { readonly max: number; readonly per: Duration }): CompiledRate {
  noUnknownIn('rate', raw, ['max', 'per'])
  const per = milliseconds(raw.per, 'rate.per')
  if (per === 0) throw invalid('rate.per', raw.per, 'at least 1 ms, such as "1s"', 1)
  return { max: integer(raw.max, 'rate.max', 1, mostStarts), per }
}

/** The gate remembers that many starts. */
const mostStarts = 1_000_000

export function compilePush(raw: PushOptions) {
  noUnknown(raw, ['priority', 'signal'], 'push')
  const priority = raw.priority ?? 0
  if (!Number.isFinite(priority)) throw invalid('priority', priority, 'a number; larger ones run first')
  return { priority, signal: raw.signal }
}

export function compileClose(raw: LocalCloseOptions) {
  noUnknown(raw, ['drain', 'grace'], 'close')
  return { drain: raw.drain ?? true, grace: milliseconds(raw.grace ?? defaults.grace, 'grace') }
}

/** What the caller's function counts for one item: checked each time, because it is not ours. */
export function measure<Item>(size: ((item: Item) => number) | undefined, item: Item, field: string): number {
  if (size === undefined) return 1
  let counted: number
  try {
    counted = size(item)
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : show(cause)
    const text = `${field} threw '${said}'; expected it to return a whole number, 0 or more, for every item`
    throw new MillraceError('INVALID_OPTION', text, { field, cause })
  }
  return Math.max(1, integer(counted, field, 0, Number.MAX_SAFE_INTEGER))
}

export function callable<F>(value: F, field: string, expected: string): F {
  if (typeof value !== 'function') throw invalid(field, value, expected)
  return value
}

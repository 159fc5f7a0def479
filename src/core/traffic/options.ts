import { bounds } from '../bounds.js'
import type { Duration } from '../duration.js'
import { milliseconds } from '../duration.js'
import { laneNames, type Priority } from '../lanes.js'
import { integer, invalid, name, noUnknownIn, number, oneOf } from '../options.js'
import type { BreakerPolicy } from './breaker.js'
import { type Dedupe, type DedupeMode, dedupeModes } from './dedupe.js'
import type { DepthPolicy } from './depth.js'
import type { Rate } from './rate.js'
import type { Limit, TrafficChange, TrafficSettings } from './settings.js'

/** Never more than `max` starts in any window of `per`, over all workers and processes. */
export interface RateOptions {
  readonly max: number
  readonly per: Duration
  /** Starts at once; the rest of `max` follows evenly. @default max */
  readonly burst?: number
}

export interface LimitOptions {
  readonly rate?: RateOptions | undefined
  /** The most that run at the same time, over all workers and processes. */
  readonly concurrency?: number | undefined
}

export interface BreakerOptions {
  /** Share of failed runs that opens it, above 0 and up to 1. @default 0.5 */
  readonly failureRate?: number
  /** Runs in the window before the share means anything. @default 10 */
  readonly minimum?: number
  /** @default '1m' */
  readonly window?: Duration
  /** From opening to the first probe. @default '30s' */
  readonly cooldown?: Duration
  /** Probes at a time, and good ones in a row before it closes. @default 3 */
  readonly probes?: number
}

const breakerDefaults = {
  failureRate: 0.5,
  minimum: 10,
  window: '1m',
  cooldown: '30s',
  probes: 3,
} as const satisfies Required<BreakerOptions>

/** How many ready jobs a queue takes, and what happens to those that are too many. Jobs due later do not count. */
export interface DepthOptions {
  /** Ready jobs of the queue. */
  readonly max: number
  /** Once full, the queue takes none until it is down to this many. @default 80 % of max */
  readonly low?: number
  /** Ready jobs of single lanes. @default no limits of their own */
  readonly lanes?: Partial<Record<Priority, number>>
  /**
   * `reject`: enqueue fails with QUEUE_FULL. `wait`: it waits until there is room. `shed`: jobs of the lower
   * lanes are dropped or put off, counted and told. @default 'reject'
   */
  readonly overflow?: 'reject' | 'wait' | 'shed'
  /** With `shed`: puts jobs off for this long instead of dropping them. @default drops them */
  readonly defer?: Duration
  /**
   * With `shed`: how full the queue is when a lane gives way; the critical lane is refused, never dropped.
   * @default { critical: 1, high: 0.9, default: 0.75, low: 0.5 }
   */
  readonly shedAt?: Partial<Record<Priority, number>>
}

const shedAtDefaults: Record<Priority, number> = { critical: 1, high: 0.9, default: 0.75, low: 0.5 }

/** What the code declares about a queue. */
export interface QueueOptions {
  /** Of all its jobs together. */
  readonly limit?: LimitOptions
  /** Of the jobs of each group. */
  readonly groupLimit?: LimitOptions
  readonly depth?: DepthOptions
}

export interface DedupeOptions<Key> {
  readonly key: Key
  /** @default 'until-done' */
  readonly mode?: DedupeMode
  /** For `throttle` and `debounce`. */
  readonly window?: Duration
  /** For `debounce`: starts at the latest this long after the first. @default ten windows */
  readonly most?: Duration
}

/** What a definition says about its traffic. */
export interface JobTrafficOptions<Input> {
  /** Of all its jobs together. */
  readonly limit?: LimitOptions
  /** What a job belongs to that has limits of its own: an account, a host. Undefined for none. */
  readonly key?: (input: Input) => string | number | undefined
  /** Of the jobs of each key. */
  readonly keyLimit?: LimitOptions
  /** Whose turn a job takes: a tenant, a customer. Groups of a queue take turns. Undefined for none. */
  readonly group?: (input: Input) => string | number | undefined
  /** Its starts need a permit of this limiter too; it is shared with `mill.limiter(name)`. */
  readonly limiter?: string
  /** Stops its jobs while too many of them fail. */
  readonly breaker?: BreakerOptions
  /** Jobs with the same key make way for each other. */
  readonly dedupe?: DedupeOptions<(input: Input) => string | number | undefined>
}

export const jobTrafficOptions = [
  'limit',
  'key',
  'keyLimit',
  'group',
  'limiter',
  'breaker',
  'dedupe',
] as const

export interface CompiledTraffic {
  readonly settings: TrafficSettings
  readonly key: ((input: unknown) => string | number | undefined) | undefined
  readonly group: ((input: unknown) => string | number | undefined) | undefined
  readonly dedupe: CompiledDedupe | undefined
}

export interface CompiledDedupe extends Omit<Dedupe, 'key'> {
  readonly key: (input: unknown) => string | number | undefined
}

/** Undefined for a definition that has none of it. */
export function compileJobTraffic(raw: JobTrafficOptions<never>): CompiledTraffic | undefined {
  const { keyLimit, group } = raw
  if (jobTrafficOptions.every((option) => raw[option] === undefined)) return undefined
  const dedupe = raw.dedupe === undefined ? undefined : compileDefinitionDedupe(raw.dedupe)
  const keepsLast = dedupe?.mode === 'keep-last'
  if (keepsLast && (raw.key !== undefined || keyLimit !== undefined))
    throw invalid(
      'dedupe.mode',
      'keep-last',
      'another mode beside `key`: keep-last lets one job of a key run at a time',
    )
  const key = keepsLast ? dedupe.key : raw.key
  if (key !== undefined && typeof key !== 'function') throw invalid('key', key, 'a function (input) => key')
  if (group !== undefined && typeof group !== 'function')
    throw invalid('group', group, 'a function (input) => group')
  if (keyLimit !== undefined && key === undefined)
    throw invalid('keyLimit', keyLimit, '`key` beside it, a function that tells the key of an input')
  return {
    settings: {
      ...(raw.limit !== undefined && { limit: compileLimit(raw.limit, 'limit') }),
      ...(keyLimit !== undefined && { each: compileLimit(keyLimit, 'keyLimit') }),
      ...(keepsLast && { each: { concurrency: 1 } }),
      ...(raw.limiter !== undefined && { limiter: name(raw.limiter, 'limiter') }),
      ...(raw.breaker !== undefined && { breaker: compileBreaker(raw.breaker) }),
    },
    key: key as CompiledTraffic['key'],
    group: group as CompiledTraffic['group'],
    dedupe,
  }
}

function compileDefinitionDedupe(
  raw: DedupeOptions<(input: never) => string | number | undefined>,
): CompiledDedupe {
  if (typeof raw.key !== 'function') throw invalid('dedupe.key', raw.key, 'a function (input) => key')
  return { ...compileDedupe(raw), key: raw.key as CompiledDedupe['key'] }
}

export function compileDedupe(raw: DedupeOptions<unknown>): Omit<Dedupe, 'key'> {
  noUnknownIn('dedupe', raw, ['key', 'mode', 'window', 'most'])
  const mode = oneOf(raw.mode ?? 'until-done', dedupeModes, 'dedupe.mode')
  const needsWindow = mode === 'throttle' || mode === 'debounce'
  if (needsWindow !== (raw.window !== undefined))
    throw invalid(
      'dedupe.window',
      raw.window,
      needsWindow ? `a duration for '${mode}'` : `none for '${mode}'`,
    )
  if (raw.most !== undefined && mode !== 'debounce')
    throw invalid('dedupe.most', raw.most, `none for '${mode}'; it is for 'debounce'`)
  const window = milliseconds(raw.window ?? 0, 'dedupe.window')
  const most = milliseconds(raw.most ?? Math.min(window * 10, bounds.delay), 'dedupe.most')
  if (most < window) throw invalid('dedupe.most', raw.most, `at least the window of ${window} ms`, window)
  return { mode, window, most }
}

export function compileDepth(raw: DepthOptions, field: string): DepthPolicy {
  noUnknownIn(field, raw, ['max', 'low', 'lanes', 'overflow', 'defer', 'shedAt'])
  const overflow = oneOf(raw.overflow ?? 'reject', ['reject', 'wait', 'shed'] as const, `${field}.overflow`)
  if (overflow !== 'shed' && (raw.defer !== undefined || raw.shedAt !== undefined))
    throw invalid(`${field}.overflow`, overflow, "'shed' beside `defer` and `shedAt`")
  noUnknownIn(`${field}.lanes`, raw.lanes ?? {}, laneNames)
  noUnknownIn(`${field}.shedAt`, raw.shedAt ?? {}, laneNames)
  const max = integer(raw.max, `${field}.max`, 1, 1e9)
  return {
    max,
    low: integer(raw.low ?? Math.floor(max * 0.8), `${field}.low`, 0, max),
    lanes: laneNames.map((lane) => {
      const own = raw.lanes?.[lane]
      if (own === undefined) return null
      return { max: integer(own, `${field}.lanes.${lane}`, 1, 1e9), low: Math.floor(own * 0.8) }
    }),
    overflow,
    defer: milliseconds(raw.defer ?? 0, `${field}.defer`),
    shedAt: laneNames.map((lane) =>
      number(raw.shedAt?.[lane] ?? shedAtDefaults[lane], `${field}.shedAt.${lane}`, 0, 1),
    ),
  }
}

export function compileQueue(raw: QueueOptions, field: string): TrafficSettings {
  noUnknownIn(field, raw, ['limit', 'groupLimit', 'depth'])
  return {
    ...(raw.limit !== undefined && { limit: compileLimit(raw.limit, `${field}.limit`) }),
    ...(raw.groupLimit !== undefined && { each: compileLimit(raw.groupLimit, `${field}.groupLimit`) }),
    ...(raw.depth !== undefined && { depth: compileDepth(raw.depth, `${field}.depth`) }),
  }
}

export function compileLimit(raw: LimitOptions, field: string): Limit {
  noUnknownIn(field, raw, ['rate', 'concurrency'])
  const { rate, concurrency } = raw
  if (rate === undefined && concurrency === undefined)
    throw invalid(field, raw, '`rate`, `concurrency` or both')
  return {
    ...(rate !== undefined && { rate: compileRate(rate, `${field}.rate`) }),
    ...(concurrency !== undefined && {
      concurrency: integer(concurrency, `${field}.concurrency`, 1, bounds.limit),
    }),
  }
}

export function compileRate(raw: RateOptions, field: string): Rate {
  noUnknownIn(field, raw, ['max', 'per', 'burst'])
  const max = integer(raw.max, `${field}.max`, 1, bounds.limit)
  const per = milliseconds(raw.per, `${field}.per`, bounds.ratePer)
  if (per < 1) throw invalid(`${field}.per`, raw.per, 'at least 1 ms', 1)
  return { max, per, burst: integer(raw.burst ?? max, `${field}.burst`, 1, max) }
}

function compileBreaker(raw: BreakerOptions): BreakerPolicy {
  noUnknownIn('breaker', raw, Object.keys(breakerDefaults))
  const given = { ...breakerDefaults, ...raw }
  const failureRate = number(given.failureRate, 'breaker.failureRate', 0, 1)
  if (failureRate === 0) throw invalid('breaker.failureRate', 0, 'a share above 0 and up to 1')
  const window = milliseconds(given.window, 'breaker.window', bounds.ratePer)
  if (window < 1) throw invalid('breaker.window', raw.window, 'at least 1 ms', 1)
  return {
    failureRate,
    minimum: integer(given.minimum, 'breaker.minimum', 1, bounds.limit),
    window,
    cooldown: milliseconds(given.cooldown, 'breaker.cooldown', bounds.ratePer),
    probes: integer(given.probes, 'breaker.probes', 1, bounds.limit),
  }
}

const noLimit = { rate: null, concurrency: null }

/** All that a definition or queue declares, so that what an earlier version of it declared goes. */
export function declaration(settings: TrafficSettings): TrafficChange {
  return {
    limit: settings.limit === undefined ? null : { ...noLimit, ...settings.limit },
    each: settings.each === undefined ? null : { ...noLimit, ...settings.each },
    limiter: settings.limiter ?? null,
    breaker: settings.breaker ?? null,
    depth: settings.depth ?? null,
  }
}

/** The name of a group or key: any text of 1 to 128 characters, but for control characters. */
export function belonging(value: string | number, field: string): string {
  const text = typeof value === 'number' && Number.isFinite(value) ? String(value) : value
  if (
    typeof text !== 'string' ||
    text.length === 0 ||
    text.length > bounds.nameLength ||
    !printable.test(text)
  ) {
    throw invalid(field, value, `a text of 1 to ${bounds.nameLength} characters without control characters`)
  }
  return text
}

const printable = /^[^\p{Cc}\p{Cs}]+$/u

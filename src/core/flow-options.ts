import { bounds } from './bounds.js'
import type { BreakerPolicy } from './breaker.js'
import type { Duration } from './duration.js'
import { milliseconds } from './duration.js'
import type { FlowChange, FlowSettings, Limit } from './flow.js'
import { integer, invalid, name, noUnknown, number } from './options.js'
import type { Rate } from './rate.js'

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

/** What a definition says about its flow. */
export interface JobFlowOptions<Input> {
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
}

export const jobFlowOptions = ['limit', 'key', 'keyLimit', 'group', 'limiter', 'breaker'] as const

export interface CompiledFlow {
  readonly settings: FlowSettings
  readonly key: ((input: unknown) => string | number | undefined) | undefined
  readonly group: ((input: unknown) => string | number | undefined) | undefined
}

/** Undefined for a definition that has none of it. */
export function compileJobFlow(raw: JobFlowOptions<never>): CompiledFlow | undefined {
  const { key, keyLimit, group } = raw
  if (jobFlowOptions.every((option) => raw[option] === undefined)) return undefined
  if (key !== undefined && typeof key !== 'function') throw invalid('key', key, 'a function (input) => key')
  if (group !== undefined && typeof group !== 'function')
    throw invalid('group', group, 'a function (input) => group')
  if (keyLimit !== undefined && key === undefined)
    throw invalid('keyLimit', keyLimit, '`key` beside it, a function that tells the key of an input')
  return {
    settings: {
      ...(raw.limit !== undefined && { limit: compileLimit(raw.limit, 'limit') }),
      ...(keyLimit !== undefined && { each: compileLimit(keyLimit, 'keyLimit') }),
      ...(raw.limiter !== undefined && { limiter: name(raw.limiter, 'limiter') }),
      ...(raw.breaker !== undefined && { breaker: compileBreaker(raw.breaker) }),
    },
    key: key as CompiledFlow['key'],
    group: group as CompiledFlow['group'],
  }
}

export function compileLimit(raw: LimitOptions, field: string): Limit {
  noUnknown(raw, ['rate', 'concurrency'], field)
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
  noUnknown(raw, ['max', 'per', 'burst'], field)
  const max = integer(raw.max, `${field}.max`, 1, bounds.limit)
  const per = milliseconds(raw.per, `${field}.per`, bounds.ratePer)
  if (per < 1) throw invalid(`${field}.per`, raw.per, 'at least 1 ms', 1)
  return { max, per, burst: integer(raw.burst ?? max, `${field}.burst`, 1, max) }
}

function compileBreaker(raw: BreakerOptions): BreakerPolicy {
  noUnknown(raw, Object.keys(breakerDefaults), 'breaker')
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

/** All that a definition declares, so that what an earlier version of it declared goes. */
export function declaration(settings: FlowSettings): FlowChange {
  return {
    limit: settings.limit ?? null,
    each: settings.each ?? null,
    limiter: settings.limiter ?? null,
    breaker: settings.breaker ?? null,
  }
}

/** The name of a group or key: any text of 1 to 128 characters, but for control characters. */
export function belonging(value: string | number, field: string): string {
  const text = typeof value === 'number' ? String(value) : value
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

const printable = /^\P{C}+$/u

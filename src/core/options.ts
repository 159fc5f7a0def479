/**
 * Raw options become compiled ones here, once, at the edge: checked, in milliseconds, with every default
 * filled in from `defaults`. An option that is wrong is a `MillraceError` naming field, value and limit.
 */
import type { BackoffOptions, CompiledBackoff, CustomBackoff, Jitter } from './backoff.js'
import { bounds } from './bounds.js'
import { type Duration, milliseconds } from './duration.js'
import { MillraceError, show } from './errors.js'
import { type LanePolicy, laneNames, type Priority, spreadTurns } from './lanes.js'
import type { Retention } from './lifecycle.js'

export const defaults = {
  queue: 'default',
  priority: 'default',
  maxAttempts: 3,
  maxCrashes: 3,
  timeout: '30s',
  backoff: { type: 'exponential', initialDelay: '1s', maxDelay: '5m', factor: 2, jitter: 'full' },
  retain: { completed: '7d', dead: '30d' },
  retainSignal: '7d',
  keep: { completed: 100_000, dead: 100_000 },
  concurrency: 10,
  lease: '30s',
  poll: '1s',
  grace: '30s',
  abandonAfter: '5s',
  sandbox: { memory: 512, idle: '30s', warm: 1 },
  weights: { critical: 8, high: 4, default: 2, low: 1 },
} as const

/** How long a finished job is kept: one duration for completed jobs, or one for each kind. 0 keeps nothing. */
export type RetainOptions = Duration | { readonly completed?: Duration; readonly dead?: Duration }

/** What a definition sets for its jobs and `enqueue` may set for one. */
export interface JobPolicy {
  /** @default 'default' */
  readonly queue?: string
  /** The lane inside the queue. @default 'default' */
  readonly priority?: Priority
  /** How often the job may be tried. @default 3 */
  readonly maxAttempts?: number
  /** How often its worker may be lost before the job is taken for poison and dies. @default 3 */
  readonly maxCrashes?: number
  /** Run time of one attempt; 0 for none. @default '30s' */
  readonly timeout?: Duration
  /** How long the finished job is kept. @default { completed: '7d', dead: '30d' } */
  readonly retain?: RetainOptions
}

export interface CompiledPolicy {
  readonly queue: string
  readonly lane: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  readonly timeout: number
  readonly backoff: CompiledBackoff
  readonly retain: Retention
}

/** The part of a policy that one job carries with it when it differs from its definition. */
export interface PolicyOverrides {
  readonly timeout?: number
  readonly backoff?: CompiledBackoff
  readonly retain?: Retention
  /** Of the input's form; see `version` of a definition. */
  readonly version?: number
}

/** A damaged row falls back to its definition. */
export function readOverrides(text: string | undefined): PolicyOverrides {
  if (text === undefined) return {}
  try {
    return (JSON.parse(text) ?? {}) as PolicyOverrides
  } catch {
    return {}
  }
}

export function compilePolicy(raw: JobPolicy & { backoff?: BackoffOptions | CustomBackoff }): CompiledPolicy {
  return {
    queue: name(raw.queue ?? defaults.queue, 'queue'),
    lane: lane(raw.priority ?? defaults.priority),
    maxAttempts: integer(raw.maxAttempts ?? defaults.maxAttempts, 'maxAttempts', 1, bounds.attempts),
    maxCrashes: integer(raw.maxCrashes ?? defaults.maxCrashes, 'maxCrashes', 1, bounds.attempts),
    timeout: milliseconds(raw.timeout ?? defaults.timeout, 'timeout'),
    backoff: compileBackoff(raw.backoff ?? {}),
    retain: compileRetain(raw.retain),
  }
}

export function compileBackoff(raw: BackoffOptions | CustomBackoff): CompiledBackoff {
  if (typeof raw !== 'object' || raw === null)
    throw invalid('backoff', raw, 'an object such as { type: "exponential" }')
  const maxDelay = milliseconds(raw.maxDelay ?? defaults.backoff.maxDelay, 'backoff.maxDelay')
  if (raw.type === 'custom') {
    const delay = raw.delay
    if (typeof delay !== 'function')
      throw invalid('backoff.delay', delay, 'a function (attempt, error) => delay')
    const custom = (attempt: number, error: unknown) => milliseconds(delay(attempt, error), 'backoff.delay()')
    return { type: 'custom', initialDelay: 0, maxDelay, factor: 1, jitter: 'none', custom }
  }
  return {
    type: oneOf(raw.type ?? defaults.backoff.type, backoffTypes, 'backoff.type'),
    initialDelay: milliseconds(raw.initialDelay ?? defaults.backoff.initialDelay, 'backoff.initialDelay'),
    maxDelay,
    factor: number(raw.factor ?? defaults.backoff.factor, 'backoff.factor', 1, 100),
    jitter: jitter(raw.jitter ?? defaults.backoff.jitter),
    custom: undefined,
  }
}

const backoffTypes = ['fixed', 'linear', 'exponential', 'polynomial', 'decorrelated'] as const

function jitter(raw: Jitter): Jitter {
  if (typeof raw === 'number') return number(raw, 'backoff.jitter', 0, 100)
  return oneOf(raw, ['none', 'full', 'equal'] as const, 'backoff.jitter')
}

export function compileRetain(raw: RetainOptions | undefined): Retention {
  const both: { completed?: Duration | undefined; dead?: Duration | undefined } =
    typeof raw === 'object' && raw !== null ? raw : { completed: raw }
  return {
    completed: milliseconds(both.completed ?? defaults.retain.completed, 'retain.completed'),
    dead: milliseconds(both.dead ?? defaults.retain.dead, 'retain.dead'),
  }
}

export interface LaneOptions {
  /** Turns of each lane in a round. @default { critical: 8, high: 4, default: 2, low: 1 } */
  readonly weights?: Partial<Record<Priority, number>>
  /** Always the most urgent lane first; lower lanes may starve. @default false */
  readonly strict?: boolean
  /** Slots that only this lane may use. @default none */
  readonly reserved?: Partial<Record<Priority, number>>
}

export function compileLanes(raw: LaneOptions, concurrency: number): LanePolicy {
  const weights = laneNames.map((lane) =>
    integer(raw.weights?.[lane] ?? defaults.weights[lane], `lanes.weights.${lane}`, 1, 100),
  )
  const reserved = laneNames.map((lane) =>
    integer(raw.reserved?.[lane] ?? 0, `lanes.reserved.${lane}`, 0, concurrency),
  )
  const held = reserved.reduce((sum, slots) => sum + slots, 0)
  const open = laneNames.some((_, lane) => reserved[lane] === 0)
  if (held > concurrency || (held === concurrency && open)) {
    throw invalid(
      'lanes.reserved',
      held,
      `fewer slots in all than concurrency ${concurrency}, so that each lane can run`,
    )
  }
  return { strict: raw.strict ?? false, turns: spreadTurns(weights), reserved }
}

export function lane(priority: Priority): number {
  return laneNames.indexOf(oneOf(priority, laneNames, 'priority'))
}

const namePattern = /^[A-Za-z0-9_](?:[A-Za-z0-9_/-]|\.(?!\.))*$/
const idPattern = /^[A-Za-z0-9_.:@#=+/-]+$/

/** Job, queue and worker names end up in keys, URLs and labels, so an allow-list decides. */
export function name(value: string, field: string): string {
  if (typeof value !== 'string' || value.length > bounds.nameLength || !namePattern.test(value)) {
    throw invalid(
      field,
      value,
      `1 to ${bounds.nameLength} letters, digits, '_', '-', '/' or single '.', starting with a letter, digit or '_'`,
      bounds.nameLength,
    )
  }
  return value
}

export function jobId(value: string, field = 'id'): string {
  if (typeof value !== 'string' || value.length > bounds.idLength || !idPattern.test(value)) {
    throw invalid(
      field,
      value,
      `1 to ${bounds.idLength} letters, digits or any of _ . : @ # = + / -`,
      bounds.idLength,
    )
  }
  return value
}

export function tags(value: readonly string[]): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length > bounds.tags) {
    throw invalid('tags', value, `an array of at most ${bounds.tags} strings`, bounds.tags)
  }
  value.forEach((tag, i) => {
    if (
      typeof tag !== 'string' ||
      tag.length === 0 ||
      tag.length > bounds.tagLength ||
      !idPattern.test(tag)
    ) {
      throw invalid(
        `tags[${i}]`,
        tag,
        `1 to ${bounds.tagLength} letters, digits or any of _ . : @ # = + / -`,
        bounds.tagLength,
      )
    }
  })
  return value.length === 0 ? undefined : [...new Set(value)]
}

export function integer(value: number, field: string, least: number, most: number): number {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw invalid(field, value, `a whole number from ${least} to ${most}`, most)
  }
  return value
}

/** Epoch milliseconds of an optional Date. */
export function time(value: Date | undefined, field: string): number | undefined {
  if (value === undefined) return undefined
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) throw invalid(field, value, 'a valid Date')
  return value.getTime()
}

export function number(value: number, field: string, least: number, most: number): number {
  if (typeof value !== 'number' || !(value >= least && value <= most)) {
    throw invalid(field, value, `a number from ${least} to ${most}`, most)
  }
  return value
}

export function oneOf<T extends string>(value: T, allowed: readonly T[], field: string): T {
  if (!allowed.includes(value)) throw invalid(field, value, `one of ${allowed.join(', ')}`)
  return value
}

/** Refuses options that nobody reads, because a misspelt one would be silently ignored. */
export function noUnknown(raw: object, known: readonly string[], what: string, path = ''): void {
  if (typeof raw !== 'object' || raw === null) throw invalid(what, raw, 'an object with options')
  for (const key of Object.keys(raw)) {
    if (known.includes(key)) continue
    const near = known.find((k) => k.toLowerCase() === key.toLowerCase() || distanceIsSmall(k, key))
    const hint = near ? `did you mean '${near}'?` : `known are ${known.join(', ')}`
    throw new MillraceError('INVALID_OPTION', `${what} has no option '${key}'; ${hint}`, {
      field: `${path}${key}`,
    })
  }
}

/** The same for an option that has options of its own. */
export function noUnknownIn(field: string, raw: object, known: readonly string[]): void {
  noUnknown(raw, known, field, `${field}.`)
}

/** At most two letters inserted, missing or different. */
function distanceIsSmall(a: string, b: string): boolean {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      next[j] = Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + same)
    }
    row = next
  }
  return (row[b.length] ?? 9) <= 2
}

/** For an option that may hold a password. */
export function unshown(field: string, expected: string): MillraceError {
  const text = `${field} is not right (it is not shown here); expected ${expected}`
  return new MillraceError('INVALID_OPTION', text, { field })
}

export function invalid(field: string, value: unknown, expected: string, limit?: unknown): MillraceError {
  return new MillraceError('INVALID_OPTION', `${field} is ${show(value)}; expected ${expected}`, {
    field,
    value,
    limit,
  })
}

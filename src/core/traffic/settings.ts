/**
 * Traffic control as settings: what an operator or a definition may set for a queue, a definition, a group or a
 * limiter. Each place has two levels, what the code declares and what was chosen at run time; the second wins,
 * field by field, until it is cleared.
 */
import type { BreakerPolicy } from './breaker.js'
import type { DepthPolicy } from './depth.js'
import type { Rate } from './rate.js'

/** Who the settings, and the gate that they govern, belong to. */
export type GateRef =
  | { readonly of: 'queue'; readonly name: string }
  | { readonly of: 'job'; readonly name: string }
  /** A group inside a queue. */
  | { readonly of: 'group'; readonly queue: string; readonly name: string }
  /** A key of a definition. */
  | { readonly of: 'key'; readonly job: string; readonly name: string }
  /** A limiter by name, for jobs and for code outside of jobs. */
  | { readonly of: 'limiter'; readonly name: string }

/** The queue of a group, the definition of a key; empty for what stands alone. */
export function ownerOf(ref: GateRef): string {
  if (ref.of === 'group') return ref.queue
  return ref.of === 'key' ? ref.job : ''
}

export interface Limit {
  readonly rate?: Rate | undefined
  /** The most that run at the same time, over all workers. */
  readonly concurrency?: number | undefined
}

export interface TrafficSettings {
  /** Of all its jobs together. */
  readonly limit?: Limit | undefined
  /** Of each group of a queue, or each key of a definition. */
  readonly each?: (Limit & { readonly weight?: number | undefined }) | undefined
  /** Of a group: turns in a row that count as one. */
  readonly weight?: number | undefined
  /** Of a group or a key: hand out none of its jobs. */
  readonly paused?: boolean | undefined
  /** Of a definition: its starts need a permit of this limiter too. */
  readonly limiter?: string | undefined
  /** Of a definition. */
  readonly breaker?: BreakerPolicy | undefined
  /** Of a queue: how many ready jobs it takes. */
  readonly depth?: DepthPolicy | undefined
}

/** What changes; null takes a field back to what the other level says. Rate and concurrency change apart. */
export type TrafficChange = {
  readonly [K in keyof TrafficSettings]?: K extends 'limit' | 'each'
    ? Nullable<TrafficSettings[K]>
    : TrafficSettings[K] | null
}

type Each = NonNullable<TrafficSettings['each']>

type Nullable<T> = { readonly [K in keyof NonNullable<T>]?: NonNullable<T>[K] | null } | null | undefined

export function changed(settings: TrafficSettings, change: TrafficChange): TrafficSettings {
  const { limit, each } = change
  return onlySaid<TrafficSettings>({
    ...settings,
    ...change,
    limit: limit && onlySaid<Limit>({ ...settings.limit, ...limit }),
    each: each && onlySaid<Each>({ ...settings.each, ...each }),
    ...(limit === undefined && { limit: settings.limit }),
    ...(each === undefined && { each: settings.each }),
  })
}

/** What holds: the chosen over the declared, field by field. */
export function effective(declared: TrafficSettings, chosen: TrafficSettings): TrafficSettings {
  return onlySaid<TrafficSettings>({
    ...declared,
    ...chosen,
    limit: onlySaid<Limit>({ ...declared.limit, ...chosen.limit }),
    each: onlySaid<Each>({ ...declared.each, ...chosen.each }),
  })
}

/** Without the fields that say nothing; a limit that says nothing is one of them. */
function onlySaid<T extends object>(fields: { readonly [K in keyof T]: T[K] | null }): T {
  const said = Object.entries(fields).filter(
    ([, value]) => value !== null && value !== undefined && !isEmpty(value),
  )
  return Object.fromEntries(said) as T
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

/** What a job brings with it; undefined for one that nothing but its queue can hold up. */
export interface JobTraffic {
  /** Its definition has limits or a breaker, so it waits apart from those that have none. */
  readonly gated: boolean
  readonly group: string | undefined
  readonly key: string | undefined
}

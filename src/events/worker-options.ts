import { type Duration, milliseconds } from '../core/duration.js'
import { defaults, integer, invalid, name, noUnknown } from '../core/options.js'
import type { AnyProjection, Projection } from './define-projection.js'
import { follower, followers } from './generations.js'
import type { EventRuntime } from './runtime.js'

export interface EventWorkerOptions {
  /** What it runs. @default all of the store's that are not inline */
  readonly projections?: readonly (AnyProjection | string)[]
  /** Parts that it works on at the same time. Where there are more, and no other worker, they take turns. @default 8 */
  readonly concurrency?: number
  /** How long it may be silent before others take its parts. @default '30s' */
  readonly lease?: Duration
  /** How often to look for events, and for parts that nobody works on, when no signal comes. @default '1s' */
  readonly poll?: Duration
  /** Positions that are looked at in one go, and events that commit together. @default 200 */
  readonly batch?: number
  /** How long `stop` waits for handlers. @default '30s' */
  readonly grace?: Duration
  /** How often it removes what retention has no more use for; false for never. @default '1m' */
  readonly tidy?: Duration | false
  /** Drain on SIGTERM and SIGINT; the second signal forces. @default true */
  readonly handleSignals?: boolean
  /** Name for statistics; made unique by a suffix. @default 'events' */
  readonly name?: string
}

export interface CompiledEventWorker {
  readonly projections: readonly Projection[]
  readonly concurrency: number
  readonly lease: number
  readonly poll: number
  readonly batch: number
  readonly grace: number
  readonly tidy: number | undefined
  readonly handleSignals: boolean
  readonly name: string
}

export const workerDefaults = {
  concurrency: 8,
  lease: defaults.lease,
  poll: defaults.poll,
  batch: 200,
  grace: defaults.grace,
  tidy: '1m',
  name: 'events',
} as const

export function compileEventWorker(runtime: EventRuntime, raw: EventWorkerOptions): CompiledEventWorker {
  noUnknown(raw, workerOptions, 'worker')
  const { projections, tidy = workerDefaults.tidy } = raw
  if (projections !== undefined && !Array.isArray(projections))
    throw invalid('projections', projections, 'an array of projections')
  if (raw.handleSignals !== undefined && typeof raw.handleSignals !== 'boolean')
    throw invalid('handleSignals', raw.handleSignals, 'true or false')
  return {
    projections: projections?.map((given) => follower(runtime, given)) ?? followers(runtime),
    concurrency: integer(raw.concurrency ?? workerDefaults.concurrency, 'concurrency', 1, 1_000),
    lease: compileLease(raw.lease),
    poll: Math.max(1, milliseconds(raw.poll ?? workerDefaults.poll, 'poll')),
    batch: integer(raw.batch ?? workerDefaults.batch, 'batch', 1, 10_000),
    grace: milliseconds(raw.grace ?? workerDefaults.grace, 'grace'),
    tidy: tidy === false ? undefined : Math.max(1, milliseconds(tidy, 'tidy')),
    handleSignals: raw.handleSignals ?? true,
    name: name(raw.name ?? workerDefaults.name, 'name'),
  }
}

export function compileLease(given: Duration = workerDefaults.lease): number {
  const lease = milliseconds(given, 'lease')
  if (lease < 100) throw invalid('lease', given, 'at least 100 ms', 100)
  return lease
}

const workerOptions = [
  'projections',
  'concurrency',
  'lease',
  'poll',
  'batch',
  'grace',
  'tidy',
  'handleSignals',
  'name',
]

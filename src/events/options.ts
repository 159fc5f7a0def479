import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import { type Codec, jsonCodec } from '../core/codec.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import { Catalogue } from './catalogue.js'
import { type AnyEvent, checkEvents } from './define-event.js'
import type { AnyProjection } from './define-projection.js'
import type { EventLog } from './log.js'
import { checkLog } from './log-url.js'
import { type CompiledRetention, compileRetention, type RetentionOptions } from './retention.js'
import { tableOf } from './table.js'

/** A kind of event, or an aggregate, which stands for all of its events. */
export type EventSource =
  | AnyEvent
  | { readonly name: string; readonly events: readonly AnyEvent[]; readonly apply: object }

/** The events that these are, or stand for. */
export type KnownEvent<S extends EventSource> = S extends {
  readonly events: readonly (infer E extends AnyEvent)[]
}
  ? E
  : Extract<S, AnyEvent>

export interface EventStoreOptions<S extends EventSource = AnyEvent> {
  /** `'memory:'`, `'sqlite:path/to/file.db'`, `'postgres://user@host/database'`, or a log object. */
  readonly log: string | EventLog
  /** The events that the store takes and gives; an aggregate stands for all of its events. */
  readonly events: readonly S[]
  /** The inline ones are written with each append, the others by `store.worker()`. */
  readonly projections?: readonly AnyProjection[]
  /** What becomes of old events, by category; a worker sees to it. @default kept for ever */
  readonly retention?: RetentionOptions
  /** @default jsonCodec */
  readonly codec?: Codec
  /** Bytes of an event's encoded data. @default 1 MiB */
  readonly maxData?: number
  /** For tests: workers and waits follow it, and the memory log. @default the system's */
  readonly clock?: Clock
}

export interface CompiledStore {
  readonly log: string | EventLog
  readonly catalogue: Catalogue
  readonly projections: ReadonlyMap<string, AnyProjection>
  readonly retention: CompiledRetention
  readonly clock: Clock
}

export function compileStore(raw: EventStoreOptions): CompiledStore {
  noUnknown(raw, storeOptions, 'EventStore')
  checkLog(raw.log)
  const { events, projections = [] } = raw
  checkMethods('codec', raw.codec, ['encode', 'decode'])
  checkMethods('clock', raw.clock, ['now', 'monotonic', 'after'])
  const catalogue = new Catalogue(
    raw.codec ?? jsonCodec,
    integer(raw.maxData ?? bounds.payloadBytes, 'maxData', 1, 1 << 30),
  )
  if (!Array.isArray(events)) throw invalid('events', events, 'an array of events and aggregates')
  if (!Array.isArray(projections)) throw invalid('projections', projections, 'an array of projections')
  for (const source of events) catalogue.add(eventsOf(source), 'events')
  for (const projection of projections) {
    if (typeof projection?.on !== 'object')
      throw invalid('projections', projection, 'projections made by defineProjection')
    catalogue.add(projection.events, 'projections')
  }
  return {
    log: raw.log,
    catalogue,
    projections: byName(projections),
    retention: compileRetention(raw.retention ?? {}),
    clock: raw.clock ?? systemClock,
  }
}

function checkMethods(field: string, given: object | undefined, methods: readonly string[]): void {
  if (given === undefined) return
  for (const method of methods)
    if (typeof (given as Readonly<Record<string, unknown>> | null)?.[method] !== 'function')
      throw invalid(field, given, `an object with ${methods.join(', ')}`)
}

/** A definition is a function, an aggregate is none. */
function eventsOf(source: EventSource): readonly AnyEvent[] {
  const events = typeof source === 'function' ? [source] : source?.events
  checkEvents(events, 'events')
  return events
}

/** Each name once, and each table's. */
function byName(projections: readonly AnyProjection[]): Map<string, AnyProjection> {
  const tables = new Set<string>()
  for (const { name } of projections) {
    const table = tableOf(name, 1)
    if (tables.has(table)) throw invalid('projections', name, "each name once, and '-' and '_' are the same")
    tables.add(table)
  }
  return new Map(projections.map((projection) => [projection.name, projection]))
}

const storeOptions = [
  'log',
  'events',
  'projections',
  'retention',
  'codec',
  'maxData',
  'clock',
] as const satisfies readonly (keyof EventStoreOptions)[]

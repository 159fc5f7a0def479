import type { BackoffOptions, CompiledBackoff } from '../core/backoff.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { compileBackoff, defaults, integer, invalid, noUnknown, noUnknownIn } from '../core/options.js'
import {
  type AnyEvent,
  type ArrivingOf,
  checkEvents,
  checkHandlers,
  type EventOfType,
} from './define-event.js'
import { tableOf } from './table.js'

/** The transaction that a handler writes with: `tx<Database>()` for better-sqlite3, `tx<PoolClient>()` for pg. */
export type TransactionOf = <Tx = unknown>() => Tx

export interface ProjectionContext {
  /**
   * The transaction in which the checkpoint moves on: what is written with it has happened once, whatever crashes.
   * Throws where the projection has `transactional: false`.
   */
  readonly tx: TransactionOf
  /** Where this generation's rows belong, such as `balances_1`; a valid name in SQL. */
  readonly table: string
  /** 1 at first; each rebuild makes the next one. */
  readonly generation: number
  /** Aborts when the handler takes too long, when the part's lease is lost, and at the end of a shutdown's grace. */
  readonly signal: AbortSignal
}

export interface InlineContext {
  /** The transaction of the append. */
  readonly tx: TransactionOf
}

export interface TableContext {
  readonly tx: TransactionOf
  /** Of the generation that comes, goes or is now live. */
  readonly table: string
  readonly generation: number
}

export interface SwapContext extends TableContext {
  /** The table that was live until now. */
  readonly previous: string
}

export interface SkipOptions {
  /** How often an event is tried before it is set aside. */
  readonly after: number
}

export type ProjectionHandlers<E extends AnyEvent> = {
  readonly [Type in E['type']]: (event: EventOfType<E, Type>, context: ProjectionContext) => unknown
}

export type InlineHandlers<E extends AnyEvent> = {
  readonly [Type in E['type']]: (event: ArrivingOf<E, Type>, context: InlineContext) => unknown
}

export interface ProjectionOptions<Events extends readonly AnyEvent[]> {
  /** Also the stem of its tables; 1 to 50 letters, digits, '_' and '-', beginning with a letter. */
  readonly name: string
  /** What it sees; it is not told of others. */
  readonly events: Events
  /** One handler for each of these events. Events of one stream come in order, one after the other. */
  readonly on: ProjectionHandlers<Events[number]>
  readonly inline?: false
  /**
   * Handlers write with `tx`, and a batch of events commits with its checkpoint, so that each event counts once. Where
   * there is one writer at a time, all others wait while a batch is handled: handlers that call services, or that append
   * events without the `tx`, say false. Then each event is handled at least once.
   * @default true
   */
  readonly transactional?: boolean
  /** Shares of the streams that are worked on side by side; fixed once the projection is known to the log. @default 1 */
  readonly parts?: number
  /** How long one handler may take; 0 for any time. Then it counts as failed, and its signal aborts. @default '30s' */
  readonly timeout?: Duration
  /** Where it begins: with the first event there is, or with the next one after it became known. @default 'beginning' */
  readonly from?: 'beginning' | 'end'
  /** Sets aside an event that fails again and again; see `store.skipped`. @default it is tried for ever */
  readonly skip?: SkipOptions
  /** When an event whose handler threw is tried again. @default { type: 'exponential', initialDelay: '100ms', maxDelay: '1m', jitter: 'equal' } */
  readonly backoff?: BackoffOptions
  /** Makes the table of a generation; needs `drop`. */
  readonly create?: (context: TableContext) => unknown
  /** Removes it. It is also called before `create`, so it must do when there is none: `DROP TABLE IF EXISTS`. */
  readonly drop?: (context: TableContext) => unknown
  /** The generation of `table` is live from this transaction on, for instance to point a view at it. */
  readonly swapped?: (context: SwapContext) => unknown
}

export interface InlineProjectionOptions<Events extends readonly AnyEvent[]> {
  readonly name: string
  readonly events: Events
  /**
   * One handler for each of these events, called in the transaction of the append; what it throws refuses the append. In a
   * caller's transaction on SQLite it must be synchronous.
   */
  readonly on: InlineHandlers<Events[number]>
  /** It is up to date with each append, and has no generations. It sees events from its first deploy on. */
  readonly inline: true
}

/** A read model that follows the log by itself. */
export interface Projection {
  readonly kind: 'projection' | 'reaction'
  readonly name: string
  readonly events: readonly AnyEvent[]
  readonly on: Readonly<Record<string, (event: never, context: ProjectionContext) => unknown>>
  readonly transactional: boolean
  readonly parts: number
  readonly timeout: number
  readonly from: 'beginning' | 'end'
  readonly skip: SkipOptions | undefined
  readonly backoff: CompiledBackoff
  readonly create: ((context: TableContext) => unknown) | undefined
  readonly drop: ((context: TableContext) => unknown) | undefined
  readonly swapped: ((context: SwapContext) => unknown) | undefined
}

/** A read model that is written with the events. */
export interface InlineProjection {
  readonly kind: 'inline'
  readonly name: string
  readonly events: readonly AnyEvent[]
  readonly on: Readonly<Record<string, (event: never, context: InlineContext) => unknown>>
}

export type AnyProjection = Projection | InlineProjection

/**
 * A read model: what handlers make of events. An asynchronous one follows the log; `store.worker()` runs it, and
 * `store.rebuild` makes it anew beside the live one. With `inline: true` it is written in the transaction of each append.
 */
export function defineProjection<const Events extends readonly AnyEvent[]>(
  options: ProjectionOptions<Events>,
): Projection
export function defineProjection<const Events extends readonly AnyEvent[]>(
  options: InlineProjectionOptions<Events>,
): InlineProjection
export function defineProjection(
  options: ProjectionOptions<readonly AnyEvent[]> | InlineProjectionOptions<readonly AnyEvent[]>,
): AnyProjection {
  if (options?.inline === true) return inline(options)
  if (options?.inline !== undefined && options.inline !== false)
    throw invalid('inline', options.inline, 'true or false')
  noUnknown(options, projectionOptions, 'defineProjection')
  return compileProjection(options, 'projection')
}

export function compileProjection(
  options: ProjectionOptions<readonly AnyEvent[]>,
  kind: Projection['kind'],
): Projection {
  const { transactional, skip, create, drop, swapped, from = 'beginning' } = options
  if (transactional !== undefined && typeof transactional !== 'boolean')
    throw invalid('transactional', transactional, 'true or false')
  if (from !== 'beginning' && from !== 'end') throw invalid('from', from, "'beginning' or 'end'")
  for (const [field, hook] of Object.entries({ create, drop, swapped }))
    if (hook !== undefined && typeof hook !== 'function') throw invalid(field, hook, 'a function')
  if (create !== undefined && drop === undefined)
    throw invalid(
      'drop',
      drop,
      'a function, as there is `create`: a rebuild begins with a table that is empty, and leaves the one before',
    )
  return {
    kind,
    ...common(options),
    on: options.on as unknown as Projection['on'],
    transactional: transactional ?? true,
    parts: integer(options.parts ?? 1, 'parts', 1, mostParts),
    timeout: milliseconds(options.timeout ?? defaults.timeout, 'timeout'),
    from,
    skip: skip === undefined ? undefined : compileSkip(skip),
    backoff: compileBackoff({ initialDelay: '100ms', maxDelay: '1m', jitter: 'equal', ...options.backoff }),
    create,
    drop,
    swapped,
  }
}

const mostParts = 256

function inline(options: InlineProjectionOptions<readonly AnyEvent[]>): InlineProjection {
  noUnknown(options, ['name', 'events', 'on', 'inline'], 'defineProjection with inline: true')
  return { kind: 'inline', ...common(options), on: options.on as unknown as InlineProjection['on'] }
}

function common({ name, events, on }: { name: string; events: readonly AnyEvent[]; on: object }) {
  tableOf(name, 1)
  checkEvents(events, 'events')
  if (events.length === 0) throw invalid('events', events, 'at least one: it would see nothing')
  checkHandlers(on, events, 'on')
  return { name, events }
}

function compileSkip(raw: SkipOptions): SkipOptions {
  noUnknownIn('skip', raw, ['after'])
  return { after: integer(raw.after, 'skip.after', 1, 1_000_000) }
}

const projectionOptions = [
  'name',
  'events',
  'on',
  'inline',
  'transactional',
  'parts',
  'timeout',
  'from',
  'skip',
  'backoff',
  'create',
  'drop',
  'swapped',
]

import { integer, invalid, name, noUnknown, noUnknownIn } from '../core/options.js'
import { type AnyEvent, type ArrivingOf, checkEvents, checkHandlers } from './define-event.js'

/**
 * What an event makes of the state, one function for each type. It must not change the state that it gets, and depends
 * on nothing but the two: the same events always come to the same state.
 */
export type Appliers<E extends AnyEvent, State> = {
  readonly [Type in E['type']]: (state: State, event: ArrivingOf<E, Type>) => State
}

export interface SnapshotOptions {
  /** Events after which the state is kept, so that loading begins there. @default 100 */
  readonly every?: number
  /** Of the state's form: raised when it, or an applier, changes; snapshots of other versions are not used. @default 1 */
  readonly version?: number
}

export interface AggregateOptions<Events extends readonly AnyEvent[], State> {
  readonly name: string
  /** All that may be in its streams. */
  readonly events: Events
  /**
   * The state before the first event, or a function that makes it. Its type is the state's: where that is wider than what
   * stands here, say so, `initial: { status: 'open' } as Order`.
   */
  readonly initial: State | (() => State)
  readonly apply: NoInfer<Appliers<Events[number], State>>
  /** Keeps the state now and then; long streams are loaded faster with it. @default none are kept */
  readonly snapshot?: SnapshotOptions
}

/** What a stream's events come to. */
export interface Aggregate<State = unknown, E extends AnyEvent = AnyEvent> {
  readonly name: string
  readonly events: readonly E[]
  readonly initial: () => State
  readonly apply: Readonly<Record<string, (state: State, event: never) => State>>
  readonly snapshot: { readonly every: number; readonly version: number } | undefined
}

// biome-ignore lint/suspicious/noExplicitAny: lists hold aggregates of every state
export type AnyAggregate = Aggregate<any, any>

/** The state of a stream, as a fold over its events. */
export function defineAggregate<const Events extends readonly AnyEvent[], State>(
  options: AggregateOptions<Events, State>,
): Aggregate<State, Events[number]> {
  noUnknown(options, ['name', 'events', 'initial', 'apply', 'snapshot'], 'defineAggregate')
  const { events, initial, apply, snapshot } = options
  checkEvents(events, 'events')
  checkHandlers(apply, events, 'apply')
  if (initial === undefined) throw invalid('initial', initial, 'the state before the first event')
  return {
    name: name(options.name, 'name'),
    events,
    initial: typeof initial === 'function' ? (initial as () => State) : copying(initial),
    apply: apply as Aggregate<State>['apply'],
    snapshot: snapshot === undefined ? undefined : compileSnapshot(snapshot),
  }
}

/** Each stream's own, whatever an applier does to it. */
function copying<State>(initial: State): () => State {
  try {
    structuredClone(initial)
  } catch {
    throw invalid('initial', initial, 'data that can be copied, or a function that makes the state')
  }
  return () => structuredClone(initial)
}

/** Made by `defineAggregate`, of events that the store takes. */
export function checkAggregate(aggregate: AnyAggregate, isKnown: (event: AnyEvent) => boolean): void {
  if (typeof aggregate?.initial !== 'function' || !Array.isArray(aggregate.events))
    throw invalid('aggregate', aggregate, 'one that defineAggregate made')
  const foreign = aggregate.events.find((event: AnyEvent) => !isKnown(event))
  if (foreign !== undefined)
    throw invalid(
      `events of aggregate '${aggregate.name}'`,
      foreign.type,
      'definitions that the store has; give it the aggregate in `events`',
    )
}

function compileSnapshot(raw: SnapshotOptions): NonNullable<AnyAggregate['snapshot']> {
  noUnknownIn('snapshot', raw, ['every', 'version'])
  return {
    every: integer(raw.every ?? 100, 'snapshot.every', 1, 1_000_000),
    version: integer(raw.version ?? 1, 'snapshot.version', 0, 1e9),
  }
}

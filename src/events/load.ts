import { bounds } from '../core/bounds.js'
import { MillraceError } from '../core/errors.js'
import { type Aggregate, type AnyAggregate, checkAggregate } from './define-aggregate.js'
import type { ArrivingEvent } from './define-event.js'
import { eventsMissing, unknownType } from './errors.js'
import type { SnapshotRecord, StoredEvent, StreamPage } from './log.js'
import type { EventRuntime } from './runtime.js'
import { categoryOf, streamName } from './stream-name.js'

export interface Loaded<State> {
  readonly state: State
  /** Of the stream; 0 when there is none of this name. */
  readonly version: number
}

/** The state of a stream, and the version that a snapshot has covered. */
export interface Folded<State> extends Loaded<State> {
  readonly kept: number
}

export async function load<State>(
  runtime: EventRuntime,
  aggregate: Aggregate<State>,
  stream: string,
): Promise<Loaded<State>> {
  const folded = await fold(runtime, aggregate, stream)
  keepSometimes(runtime, aggregate, stream, folded)
  return { state: folded.state, version: folded.version }
}

/** From the newest snapshot that can be used, or from the beginning. */
export async function fold<State>(
  runtime: EventRuntime,
  aggregate: Aggregate<State>,
  stream: string,
): Promise<Folded<State>> {
  checkAggregate(aggregate, (event) => runtime.catalogue.has(event))
  streamName(stream)
  await runtime.ready()
  const snapshot = await usableSnapshot(runtime, aggregate, stream)
  const kept = snapshot?.version ?? 0
  let state =
    snapshot === undefined ? aggregate.initial() : (runtime.catalogue.decodeState(snapshot.state) as State)
  let version = kept
  for (;;) {
    const page: StreamPage = await runtime.log.stream({
      stream,
      after: version,
      backwards: false,
      limit: bounds.page,
    })
    for (const stored of page.events) {
      refuseGap(runtime, stream, version, stored.version)
      state = applied(runtime, aggregate, state, stored)
      version = stored.version
    }
    if (page.events.length === bounds.page) continue
    refuseGap(runtime, stream, version, page.version + 1)
    return { state, version: Math.max(version, page.version), kept }
  }
}

/** Keeps the state when enough has happened since the last snapshot. Nobody waits for it. */
export function keepSometimes(
  runtime: EventRuntime,
  aggregate: AnyAggregate,
  stream: string,
  { state, version, kept }: Folded<unknown>,
): void {
  if (aggregate.snapshot === undefined || version - kept < aggregate.snapshot.every) return
  const { name } = aggregate
  const { version: schema } = aggregate.snapshot
  runtime.background(
    // A state that cannot be encoded is told as any other failure.
    (async () => {
      const text = runtime.catalogue.encodeState(state)
      await runtime.log.keepSnapshot({ stream, name, schema, version, state: text })
    })().catch((error: unknown) =>
      runtime.listeners.emit('error', { error, during: `snapshot of '${stream}' for '${name}'` }),
    ),
  )
}

/** What an applier makes of the state. */
export function applyEvent<State>(aggregate: Aggregate<State>, state: State, event: ArrivingEvent): State {
  const applier = Object.hasOwn(aggregate.apply, event.type) ? aggregate.apply[event.type] : undefined
  if (applier === undefined) return state
  const next = applier(state, event as never)
  if (next === undefined)
    throw new MillraceError(
      'INVALID_OUTCOME',
      `apply.${event.type} of aggregate '${aggregate.name}' gave undefined; it must return the next state`,
      { field: `apply.${event.type}` },
    )
  return next
}

async function usableSnapshot(
  { log }: EventRuntime,
  { name, snapshot: options }: AnyAggregate,
  stream: string,
): Promise<SnapshotRecord | undefined> {
  if (options === undefined) return undefined
  const snapshot = await log.snapshot(stream, name)
  return snapshot?.schema === options.version ? snapshot : undefined
}

/** An event that the store does not know may be what the state hangs on; one that it knows and this does not list is not. */
function applied<State>(
  { catalogue }: EventRuntime,
  aggregate: Aggregate<State>,
  state: State,
  stored: StoredEvent,
): State {
  if (Object.hasOwn(aggregate.apply, stored.type))
    return applyEvent(aggregate, state, catalogue.decode(stored))
  if (!catalogue.knows(stored.type)) throw unknownType(stored.type, stored.stream)
  return state
}

/** Between two events, or before the end, some are missing: removed by a policy that only compaction allows for. */
function refuseGap({ retention }: EventRuntime, stream: string, version: number, next: number): void {
  if (next <= version + 1 || retention.get(categoryOf(stream))?.do === 'compact') return
  throw eventsMissing(stream, version + 1, next - 1)
}

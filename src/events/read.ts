import { bounds } from '../core/bounds.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import type { RecordedEvent } from './define-event.js'
import type { StreamPage } from './log.js'
import type { EventRuntime } from './runtime.js'
import { checkSignal } from './signal.js'
import { streamName } from './stream-name.js'
import { Wakes } from './wakes.js'

export interface ReadOptions {
  /** Only events after this version, or before it when read backwards. @default all of them */
  readonly after?: number
  /** The newest first. @default false */
  readonly backwards?: boolean
  /** @default no limit */
  readonly limit?: number
}

export interface ReadAllOptions<Type extends string = string> {
  /** Only events after this position. @default 0 */
  readonly after?: number
  /** Only events of these types. @default those that the store knows */
  readonly types?: readonly Type[]
  /** @default no limit */
  readonly limit?: number
}

export interface FollowOptions<Type extends string = string> extends Omit<ReadAllOptions<Type>, 'limit'> {
  /** Ends it, also in the middle of a wait; so does closing the store. */
  readonly signal?: AbortSignal
}

/** The events of one stream, in order. */
export async function* readStream(
  runtime: EventRuntime,
  stream: string,
  options: ReadOptions = {},
): AsyncGenerator<RecordedEvent, void, undefined> {
  noUnknown(options, ['after', 'backwards', 'limit'], 'read')
  const { backwards = false } = options
  streamName(stream)
  let after = versionOf(options.after ?? (backwards ? Number.MAX_SAFE_INTEGER : 0), 'after')
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : versionOf(options.limit, 'limit')
  await runtime.ready()
  while (left > 0) {
    const limit = Math.min(left, bounds.page)
    const { events }: StreamPage = await runtime.log.stream({ stream, after, backwards, limit })
    for (const event of events) yield runtime.catalogue.decode(event)
    left -= events.length
    after = events.at(-1)?.version ?? after
    if (events.length < limit) return
  }
}

/** The events of all streams, by position, up to the newest of now. */
export async function* readAll(
  runtime: EventRuntime,
  options: ReadAllOptions = {},
): AsyncGenerator<RecordedEvent, void, undefined> {
  noUnknown(options, ['after', 'types', 'limit'], 'readAll')
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : versionOf(options.limit, 'limit')
  for await (const page of pages(runtime, options)) {
    for (const event of page.events) {
      if (left-- <= 0) return
      yield event
    }
    if (!page.more || left <= 0) return
  }
}

/** The same, and then those that come, for as long as it is read. */
export async function* follow(
  runtime: EventRuntime,
  options: FollowOptions = {},
): AsyncGenerator<RecordedEvent, void, undefined> {
  noUnknown(options, ['after', 'types', 'signal'], 'follow')
  const { signal } = options
  checkSignal(signal)
  await runtime.ready()
  const wakes = new Wakes(runtime.clock)
  const wake = () => wakes.wake()
  const unsubscribe = runtime.log.subscribe(wake)
  const signals = [runtime.closing, ...(signal === undefined ? [] : [signal])]
  const isOver = () => signals.some(({ aborted }) => aborted)
  for (const one of signals) one.addEventListener('abort', wake)
  try {
    let idle = 0
    for await (const page of pages(runtime, options)) {
      for (const event of page.events) {
        if (isOver()) return
        yield event
      }
      if (isOver()) return
      idle = page.events.length > 0 ? 0 : idle + 1
      if (!page.more) await wakes.next(page.pending ? soon(idle) : pollMs)
      if (isOver()) return
    }
  } catch (error) {
    // A log that is closed while it is read says so; whoever closes the store knows.
    if (!runtime.closing.aborted) throw error
  } finally {
    unsubscribe()
    for (const one of signals) one.removeEventListener('abort', wake)
  }
}

/** How long to wait for a writer that is at work, later and later. */
export function soon(looks: number): number {
  return Math.min(2 ** Math.min(looks, 10), 100)
}

const pollMs = 1_000

interface Page {
  readonly events: readonly RecordedEvent[]
  readonly more: boolean
  readonly pending: boolean
}

async function* pages(
  runtime: EventRuntime,
  options: { readonly after?: number; readonly types?: readonly string[] },
): AsyncGenerator<Page, void, undefined> {
  const types = knownTypes(runtime, options.types)
  let after = versionOf(options.after ?? 0, 'after')
  await runtime.ready()
  for (;;) {
    const { events, through, more, pending } = await runtime.log.all({
      after,
      limit: bounds.page,
      types,
      share: undefined,
    })
    yield { events: events.map((event) => runtime.catalogue.decode(event)), more, pending }
    after = through
  }
}

function knownTypes({ catalogue }: EventRuntime, types: readonly string[] | undefined): readonly string[] {
  for (const type of types ?? [])
    if (!catalogue.knows(type)) throw invalid('types', type, `some of ${catalogue.types.join(', ')}`)
  return types ?? catalogue.types
}

function versionOf(value: number, field: string): number {
  return integer(value, field, 0, Number.MAX_SAFE_INTEGER)
}

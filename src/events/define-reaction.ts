import type { BackoffOptions } from '../core/backoff.js'
import { checkDefinition, type EnqueueOptions, type JobDefinition } from '../core/definition.js'
import type { Duration } from '../core/duration.js'
import { invalid, noUnknown } from '../core/options.js'
import {
  type AnyEvent,
  checkEvents,
  checkHandlers,
  type EventOfType,
  type RecordedEvent,
} from './define-event.js'
import {
  compileProjection,
  type Projection,
  type ProjectionContext,
  type SkipOptions,
} from './define-projection.js'
import { derivedId } from './derived-id.js'

/** What of a Millrace a reaction needs. */
export interface JobTarget {
  enqueue<I, O, R>(
    job: JobDefinition<I, O, R>,
    input: NoInfer<I>,
    options?: EnqueueOptions,
  ): Promise<{ readonly id: string }>
}

/**
 * Adds a job that stands for this event: its id is made from the event's and from how many jobs the handler has added
 * before, so that an event that comes again adds none. Resolves to the id, once the job is there.
 */
export type EnqueueForEvent = <I, O, R>(
  job: JobDefinition<I, O, R>,
  input: NoInfer<I>,
  options?: Omit<EnqueueOptions, 'id'>,
) => Promise<string>

export interface ReactionContext {
  readonly enqueue: EnqueueForEvent
  /** Aborts when the handler takes too long, when the part's lease is lost, and at the end of a shutdown's grace. */
  readonly signal: AbortSignal
}

export type ReactionHandlers<E extends AnyEvent> = {
  readonly [Type in E['type']]: (event: EventOfType<E, Type>, context: ReactionContext) => unknown
}

export interface ReactionOptions<Events extends readonly AnyEvent[]> {
  readonly name: string
  /** What it reacts to. */
  readonly events: Events
  /** The Millrace that gets the jobs; on any engine, wherever that is. */
  readonly to: JobTarget
  /** One handler for each of these events. It must add the same jobs in the same order when an event comes again. */
  readonly on: ReactionHandlers<Events[number]>
  /** Shares of the streams that are worked on side by side; fixed once the reaction is known to the log. @default 1 */
  readonly parts?: number
  /** How long one handler may take; 0 for any time. Then it counts as failed, and its signal aborts. @default '30s' */
  readonly timeout?: Duration
  /**
   * Where it begins: with the next event after it became known, or with the first there is, so that all that ever
   * happened has its jobs now.
   * @default 'end'
   */
  readonly from?: 'beginning' | 'end'
  /** Sets aside an event that fails again and again; see `store.skipped`. @default it is tried for ever */
  readonly skip?: SkipOptions
  /** See `ProjectionOptions`. */
  readonly backoff?: BackoffOptions
}

/**
 * Jobs from events: a projection whose handlers enqueue. Each event is handled at least once, and its jobs are added
 * once, for as long as the target keeps finished jobs (`retain`).
 */
export function defineReaction<const Events extends readonly AnyEvent[]>(
  options: ReactionOptions<Events>,
): Projection {
  noUnknown(options, reactionOptions, 'defineReaction')
  const { to, events, on, from = 'end', ...rest } = options
  if (typeof to?.enqueue !== 'function') throw invalid('to', to, 'a Millrace')
  checkEvents(events, 'events')
  checkHandlers(on, events, 'on')
  const handlers = Object.entries(on as Record<string, Reaction>).map(
    ([type, react]) => [type, reacting(options.name, to, react)] as const,
  )
  return compileProjection(
    { ...rest, events, from, transactional: false, on: Object.fromEntries(handlers) },
    'reaction',
  )
}

type Reaction = (event: RecordedEvent, context: ReactionContext) => unknown

function reacting(name: string, to: JobTarget, react: Reaction) {
  return async (event: RecordedEvent, { signal }: ProjectionContext): Promise<void> => {
    let count = 0
    const adding: Promise<string>[] = []
    const enqueue: EnqueueForEvent = (job, input, options) => {
      checkDefinition(job)
      const id = derivedId('reaction', name, event.id, count++)
      const added = to.enqueue(job, input, { ...options, id }).then((handle) => handle.id)
      adding.push(added)
      // One that fails before the handler is done must not end the process: it fails the handler, below.
      added.catch(() => {})
      return added
    }
    await react(event, { enqueue, signal })
    // A handler need not wait for them; the event is not done before they are there.
    await Promise.all(adding)
  }
}

const reactionOptions = ['name', 'events', 'to', 'on', 'parts', 'timeout', 'from', 'skip', 'backoff']

import { bounds } from '../core/bounds.js'
import { isMillraceError } from '../core/errors.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import { append } from './append.js'
import type { Aggregate } from './define-aggregate.js'
import type { AnyEvent, DraftOf, EventDraft } from './define-event.js'
import { applyEvent, fold, keepSometimes, type Loaded } from './load.js'
import type { EventRuntime } from './runtime.js'

export interface DecideContext {
  readonly stream: string
  /** Of the stream; 0 when it is not there yet. */
  readonly version: number
  /** The store's clock. */
  readonly now: Date
}

/** What happens, given the state: events, one event, or nothing. What it throws refuses the command. */
export type Decide<State, E extends AnyEvent> = (
  state: State,
  context: DecideContext,
) => Decision<E> | PromiseLike<Decision<E>>

// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing decides that nothing happens
export type Decision<E extends AnyEvent> = readonly DraftOf<E>[] | DraftOf<E> | undefined | void

export interface ExecuteOptions {
  /**
   * How often it is tried when others append to the stream meanwhile; each try decides anew.
   * @default 20, or 1 with `tx`
   */
  readonly attempts?: number
  /** See `AppendOptions`. */
  readonly meta?: unknown
  /** See `AppendOptions`. The state is read beside the transaction: it does not see what that has not committed. */
  readonly tx?: unknown
}

export interface Executed<State> extends Loaded<State> {
  /** How many events it came to. */
  readonly appended: number
}

/** Loads, decides, and appends to the version that was loaded. */
export async function execute<State, E extends AnyEvent>(
  runtime: EventRuntime,
  aggregate: Aggregate<State, E>,
  stream: string,
  decide: Decide<State, E>,
  options: ExecuteOptions = {},
): Promise<Executed<State>> {
  noUnknown(options, ['attempts', 'meta', 'tx'], 'execute')
  if (typeof decide !== 'function') throw invalid('decide', decide, 'a function (state) => events')
  const attempts = integer(
    options.attempts ?? (options.tx === undefined ? 20 : 1),
    'attempts',
    1,
    bounds.attempts,
  )
  for (let failures = 0; ; failures++) {
    try {
      return await attempt(runtime, aggregate, stream, decide, options)
    } catch (error) {
      if (!isMillraceError(error, 'WRONG_VERSION') || failures + 1 >= attempts) throw error
    }
    await pause(runtime, failures)
  }
}

async function attempt<State, E extends AnyEvent>(
  runtime: EventRuntime,
  aggregate: Aggregate<State, E>,
  stream: string,
  decide: Decide<State, E>,
  { meta, tx }: ExecuteOptions,
): Promise<Executed<State>> {
  const loaded = await fold(runtime, aggregate, stream)
  const { state, version } = loaded
  const now = new Date(runtime.clock.now())
  const drafts = listOf(await decide(state, { stream, version, now }))
  if (drafts.length === 0) {
    keepSometimes(runtime, aggregate, stream, loaded)
    return { state, version, appended: 0 }
  }
  const { appended, events } = await append(runtime, stream, drafts, { expected: version, meta, tx })
  const next = {
    state: events.reduce((folded, event) => applyEvent(aggregate, folded, event), state),
    version: appended.version,
    kept: loaded.kept,
  }
  // What a transaction may still undo is not kept.
  if (tx === undefined) keepSometimes(runtime, aggregate, stream, next)
  return { state: next.state, version: next.version, appended: events.length }
}

function listOf(decision: Decision<AnyEvent>): readonly EventDraft[] {
  if (decision === undefined) return []
  return Array.isArray(decision) ? decision : [decision as EventDraft]
}

/** Full jitter: those who met do not meet again. */
function pause({ clock }: EventRuntime, failures: number): Promise<void> {
  const ms = Math.random() * Math.min(longestMs, firstMs * 2 ** failures)
  return new Promise((resolve) => clock.after(ms, resolve))
}

const firstMs = 4
const longestMs = 1_000

import { AssertionError } from 'node:assert'
import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import type { Duration } from '../core/duration.js'
import { milliseconds } from '../core/duration.js'
import type { Aggregate } from '../events/define-aggregate.js'
import { type AnyEvent, checkedData, type DraftOf, type EventDraft } from '../events/define-event.js'
import type { Decide } from '../events/execute.js'
import { EventStore } from '../events/store.js'
import { difference, type ErrorMatch, expectEqual, matches } from './expectation.js'
import { VirtualClock } from './virtual-clock.js'

/** Time that passes between two events: `later('2d')`. */
export interface Later {
  readonly later: number
}

export function later(duration: Duration): Later {
  return { later: milliseconds(duration, 'later') }
}

export interface GivenOptions {
  /** Moves with `later(…)`; the events' `at` and a decision's `now` are its time. @default a new one */
  readonly clock?: VirtualClock
  /** @default the aggregate's name, with '-1' */
  readonly stream?: string
}

/**
 * What has happened to an aggregate, for a test of what happens next:
 * `await given(account, [Opened({ owner: 'ann' }), later('2d')]).when(withdraw(5)).then([Withdrawn({ amount: 5 })])`.
 * Data is checked and encoded as in a store. What is not as expected throws an AssertionError, whatever the test runner.
 */
export function given<State, E extends AnyEvent>(
  aggregate: Aggregate<State, E>,
  history: readonly (DraftOf<E> | Later)[] = [],
  options: GivenOptions = {},
): Given<State, E> {
  return new Given(aggregate, history as readonly (EventDraft | Later)[], options)
}

export class Given<State, E extends AnyEvent> {
  readonly #aggregate: Aggregate<State, E>
  readonly #history: readonly (EventDraft | Later)[]
  readonly #options: GivenOptions

  constructor(
    aggregate: Aggregate<State, E>,
    history: readonly (EventDraft | Later)[],
    options: GivenOptions,
  ) {
    this.#aggregate = aggregate
    this.#history = history
    this.#options = options
  }

  /** A command decides, as with `store.execute`. */
  when(decide: Decide<State, E>): When<State, E> {
    return new When(this.#aggregate, this.#run(decide))
  }

  /** What the history comes to. */
  thenState(expected: State | ((state: State) => unknown)): Promise<void> {
    return new When(
      this.#aggregate,
      this.#run(() => []),
    ).thenState(expected)
  }

  async #run(decide: Decide<State, E>): Promise<Outcome<State>> {
    const { clock = new VirtualClock(), stream = `${this.#aggregate.name}-1` } = this.#options
    const store = new EventStore<AnyEvent>({ log: 'memory:', events: this.#aggregate.events, clock })
    try {
      await happen(
        store,
        clock,
        this.#history.map((entry) => ('later' in entry ? entry : [stream, entry])),
      )
      const { version } = await store.load(this.#aggregate, stream)
      try {
        const { state } = await store.execute(this.#aggregate, stream, decide as never)
        const events: EventDraft[] = []
        for await (const { type, data } of store.read(stream, { after: version })) events.push({ type, data })
        return { events, state }
      } catch (error) {
        return { error }
      }
    } finally {
      await store.close()
    }
  }
}

type Outcome<State> =
  | { readonly events: readonly EventDraft[]; readonly state: State; readonly error?: undefined }
  | { readonly error: unknown; readonly events?: undefined }

/** What came of a decision. */
export class When<State, E extends AnyEvent> {
  readonly #aggregate: Aggregate<State, E>
  readonly #outcome: Promise<Outcome<State>>

  constructor(aggregate: Aggregate<State, E>, outcome: Promise<Outcome<State>>) {
    this.#aggregate = aggregate
    this.#outcome = outcome
    this.#outcome.catch(() => {})
  }

  /** Exactly these events, in this order; none for a decision that nothing happens. */
  // biome-ignore lint/suspicious/noThenProperty: given, when, then
  async then(expected: readonly DraftOf<E>[], ...more: never[]): Promise<void> {
    // `await given(…).when(…)`, which says nothing of what is expected, calls it with two functions.
    if (typeof expected === 'function') return expectNothing(more[0])
    const { events } = await this.#happened()
    const drafts = await Promise.all(
      (expected as readonly EventDraft[]).map((draft) => this.#asStored(draft)),
    )
    expectEqual('the decision came to other events', events, drafts)
  }

  /** What it came to, for a look of one's own. */
  async events(): Promise<readonly DraftOf<E>[]> {
    return (await this.#happened()).events as readonly DraftOf<E>[]
  }

  /** It was refused: with this code, or a message that has this text or matches, or an error like this one. */
  async thenThrows(match?: ErrorMatch): Promise<void> {
    const { error, events } = await this.#outcome
    if (events !== undefined)
      throw difference('expected the decision to be refused, and it came to events', events, match)
    if (!matches(error, match)) throw difference('it was refused with another error', error, match)
  }

  /** What the aggregate is afterwards. A function looks for itself, and throws when something is wrong. */
  async thenState(expected: State | ((state: State) => unknown)): Promise<void> {
    const { state } = await this.#happened()
    if (typeof expected === 'function') await (expected as (state: State) => unknown)(state)
    else expectEqual('the state is another one', state, expected)
  }

  /** With the defaults of its schema, what that makes of it, and without what is not stored, such as undefined. */
  async #asStored({ type, data }: EventDraft): Promise<EventDraft> {
    const definition = this.#aggregate.events.find((event) => event.type === type)
    const checked = definition === undefined ? data : await checkedData(definition, data)
    if (checked === undefined) return { type, data: undefined }
    const text = jsonCodec.encode(checked, `data of expected event '${type}'`, bounds.payloadBytes)
    return { type, data: jsonCodec.decode(text) }
  }

  async #happened(): Promise<Outcome<State> & { readonly events: readonly EventDraft[] }> {
    const outcome = await this.#outcome
    if (outcome.events !== undefined) return outcome
    const { error } = outcome
    const said = error instanceof Error ? error.message : String(error)
    const refused = new AssertionError({ message: `the decision was refused: ${said}` })
    refused.cause = error
    throw refused
  }
}

function expectNothing(reject: ((error: unknown) => void) | undefined): void {
  reject?.(new AssertionError({ message: 'say what is expected: then([…]), thenThrows(…) or thenState(…)' }))
}

/** Appends what has happened, at its times. */
export async function happen(
  store: EventStore<AnyEvent>,
  clock: VirtualClock | undefined,
  history: readonly (readonly [stream: string, ...events: EventDraft[]] | Later)[],
): Promise<void> {
  for (const entry of history) {
    if (!('later' in entry)) {
      const [stream, ...events] = entry
      await store.append(stream, events)
    } else if (clock === undefined) {
      throw new AssertionError({
        message: 'later(…) needs the clock of the store: givenEvents(…, { store, clock })',
      })
    } else {
      await clock.advance(entry.later)
    }
  }
}

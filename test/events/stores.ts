/** Event stores over the engine under test, with accounts in them; closed after the test. */
import {
  type AnyEvent,
  defineAggregate,
  defineEvent,
  type EventLog,
  EventStore,
  type EventStoreOptions,
} from 'millrace/events'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { type FreshLog, freshLog, isShared } from './logs.js'

export const Opened = defineEvent({ type: 'opened', data: z.object({ owner: z.string() }) })
export const Deposited = defineEvent({ type: 'deposited', data: z.object({ amount: z.number().positive() }) })
export const Withdrawn = defineEvent({ type: 'withdrawn', data: z.object({ amount: z.number().positive() }) })
export const Closed = defineEvent({ type: 'closed' })

export const account = defineAggregate({
  name: 'account',
  events: [Opened, Deposited, Withdrawn, Closed],
  initial: { owner: '', balance: 0, isOpen: false },
  apply: {
    opened: (state, { data }) => ({ ...state, owner: data.owner, isOpen: true }),
    deposited: (state, { data }) => ({ ...state, balance: state.balance + data.amount }),
    withdrawn: (state, { data }) => ({ ...state, balance: state.balance - data.amount }),
    closed: (state) => ({ ...state, isOpen: false }),
  },
})

/** A store of accounts. */
export type Accounts = EventStore<typeof account>

export interface Bank extends Omit<FreshLog, 'another'> {
  readonly store: Accounts
  /** Another store, as another process has it. */
  another(options?: Options): Promise<Accounts>
  /** Another log on the same data; where they cannot be shared the same one, which is closed by nobody but the first. */
  anotherLog(): Promise<EventLog>
}

type Options = Partial<Omit<EventStoreOptions, 'events' | 'log'>> & {
  readonly events?: readonly AnyEvent[]
  /** Puts something in front of the log. */
  readonly wrap?: (log: EventLog) => EventLog
}

/** The log follows a virtual clock, so leases end when a test says so; the store follows the real one. */
export async function bank(options: Options = {}): Promise<Bank> {
  const fresh = await freshLog()
  const anotherLog = async () => (isShared ? await fresh.another() : fresh.log)
  const another = async (more: Options = options) => storeOn(await anotherLog(), more)
  return { ...fresh, store: await storeOn(fresh.log, options), another, anotherLog }
}

/** The log is open, and stays so. */
export async function storeOn(log: EventLog, { wrap, events, ...options }: Options = {}): Promise<Accounts> {
  const store = new EventStore({
    ...options,
    log: unclosed(wrap?.(log) ?? log),
    events: [account, ...(events ?? [])] as never,
  }) as unknown as Accounts
  onTestFinished(() => store.close({ grace: 0 }))
  await store.open()
  return store
}

/** With some verbs of its own. */
export function withVerbs(log: EventLog, verbs: Partial<EventLog>): EventLog {
  return new Proxy(log, {
    get: (target, key) => {
      const value = (verbs as Record<PropertyKey, unknown>)[key] ?? Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Who made it opens and closes it. */
function unclosed(log: EventLog): EventLog {
  return withVerbs(log, { open: async () => {}, close: async () => {} })
}

/** Deposits of 1 to `count`, one append each. */
export async function deposits(store: Accounts, stream: string, count: number): Promise<void> {
  for (let amount = 1; amount <= count; amount++) await store.append(stream, [Deposited({ amount })])
}

export async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const event of events) list.push(event)
  return list
}

export function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    (error) => error.code ?? error.message,
  )
}

/** Checked by the compiler: events, aggregates and projections keep their types. */
import { defineAggregate, defineEvent, defineProjection, EventStore } from 'millrace/events'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

const Opened = defineEvent({
  type: 'opened',
  data: z.object({ owner: z.string(), limit: z.number().default(0) }),
})
const Deposited = defineEvent({ type: 'deposited', data: z.object({ amount: z.number() }) })
const Closed = defineEvent({ type: 'closed' })
const Noted = defineEvent<'noted', { text: string }>({ type: 'noted' })

const draft = Opened({ owner: 'ann' })
same<typeof draft.type, 'opened'>(true)
Closed()
Noted({ text: 'x' })
// @ts-expect-error it has data
Noted()
// @ts-expect-error an amount is a number
Deposited({ amount: '5' })
defineEvent({ type: 'x', data: z.object({ n: z.number() }), version: 2, upgrade: () => ({ n: 1 }) })
// @ts-expect-error what an upgrade gives must have the form of the data
defineEvent({ type: 'x', data: z.object({ n: z.number() }), version: 2, upgrade: () => ({ m: 1 }) })

const account = defineAggregate({
  name: 'account',
  events: [Opened, Deposited, Closed],
  initial: { balance: 0 },
  apply: {
    opened: (state, event) => {
      same<typeof state, { balance: number }>(true)
      same<typeof event.data, { owner: string; limit: number }>(true)
      same<typeof event.type, 'opened'>(true)
      return state
    },
    deposited: (state, { data }) => ({ balance: state.balance + data.amount }),
    closed: (state, { data, at }) => {
      same<typeof data, undefined>(true)
      same<typeof at, Date>(true)
      return state
    },
  },
})

defineAggregate({
  name: 'account',
  events: [Opened, Deposited],
  initial: { balance: 0 },
  // @ts-expect-error each event needs its function
  apply: { opened: (state) => state },
})

const wide = defineAggregate({
  name: 'wide',
  events: [Closed],
  initial: (): { closedAt: Date | undefined } => ({ closedAt: undefined }),
  apply: { closed: (_, { at }) => ({ closedAt: at }) },
})

interface Order {
  readonly status: 'open' | 'shipped'
  readonly lines: number
}

const order = defineAggregate({
  name: 'order',
  events: [Closed],
  initial: { status: 'open', lines: 0 } as Order,
  apply: {
    closed: (state) => {
      same<typeof state, Order>(true)
      return { ...state, status: 'shipped' }
    },
  },
})
same<ReturnType<typeof order.initial>, Order>(true)

defineAggregate({
  name: 'order',
  events: [Closed],
  initial: { status: 'open', lines: 0 } as Order,
  // @ts-expect-error an order has no such status
  apply: { closed: (state) => ({ ...state, status: 'lost' }) },
})

const counter = defineAggregate({
  name: 'counter',
  events: [Closed],
  initial: 0,
  apply: { closed: (n) => n + 1 },
})
same<ReturnType<typeof counter.initial>, number>(true)

const store = new EventStore({ log: 'memory:', events: [Noted, account, wide] })

export async function use(): Promise<void> {
  await store.append('account-1', [Opened({ owner: 'ann' }), Noted({ text: 'x' })], { expected: 'none' })
  const Other = defineEvent({ type: 'other' })
  // @ts-expect-error the store does not know it
  await store.append('account-1', [Other()])
  for await (const event of store.read('account-1')) {
    if (event.type === 'deposited') same<typeof event.data, { amount: number }>(true)
    if (event.type === 'noted') same<typeof event.data, { text: string }>(true)
  }
  for await (const event of store.readAll({ types: ['deposited', 'closed'] })) {
    same<typeof event.type, 'deposited' | 'closed'>(true)
    // @ts-expect-error it was not asked for
    event.type === 'noted'
  }
  // @ts-expect-error there is no such type
  store.follow({ types: ['nothing'] })
  const { state, version } = await store.load(account, 'account-1')
  same<typeof state, { balance: number }>(true)
  same<typeof version, number>(true)
  const executed = await store.execute(account, 'account-1', (state, { now }) => {
    same<typeof state, { balance: number }>(true)
    same<typeof now, Date>(true)
    return state.balance > 0 ? [Closed()] : []
  })
  same<typeof executed.state, { balance: number }>(true)
  await store.execute(account, 'account-1', async () => Deposited({ amount: 5 }))
  await store.execute(account, 'account-1', () => {})
  // @ts-expect-error it is none of the aggregate's events
  await store.execute(account, 'account-1', () => [Noted({ text: 'x' })])
}

export const projection = defineProjection({
  name: 'balances',
  events: [Opened, Deposited],
  on: {
    opened: ({ data, position }, { tx, table, generation }) => {
      same<typeof data, { owner: string; limit: number }>(true)
      same<typeof position, number>(true)
      same<typeof table, string>(true)
      same<typeof generation, number>(true)
      tx<{ run(sql: string): void }>().run('…')
    },
    deposited: async ({ data }) => {
      same<typeof data, { amount: number }>(true)
    },
  },
})

export const inline = defineProjection({
  name: 'balances',
  inline: true,
  events: [Opened],
  on: {
    opened: (event, { tx }) => {
      same<typeof event.version, number>(true)
      // @ts-expect-error it has no position yet
      event.position
      tx()
    },
  },
})

import { defineAggregate, defineEvent } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { account, all, bank, Closed, codeOf, Deposited, deposits, Opened, Withdrawn } from './stores.js'

describe('load', () => {
  test('folds what happened, over pages of it', async () => {
    const { store } = await bank()
    expect(await store.load(account, 'account-1')).toEqual({
      state: { owner: '', balance: 0, isOpen: false },
      version: 0,
    })
    await store.append('account-1', [Opened({ owner: 'ann' })])
    for (let i = 0; i < 2; i++) await store.append('account-1', Array(750).fill(Deposited({ amount: 1 })))
    expect(await store.load(account, 'account-1')).toEqual({
      state: { owner: 'ann', balance: 1_500, isOpen: true },
      version: 1_501,
    })
  })

  test('does not share the initial state', async () => {
    const list = defineAggregate({
      name: 'list',
      events: [Closed],
      initial: { items: [] as number[] },
      apply: {
        closed: (state) => {
          state.items.push(1)
          return state
        },
      },
    })
    const { store } = await bank()
    await store.append('list-1', [Closed()])
    await store.load(list as never, 'list-1')
    expect(await store.load(list as never, 'list-1')).toMatchObject({ state: { items: [1] } })
  })

  test('leaves out what the aggregate does not list, and refuses what the store does not know', async () => {
    const Noted = defineEvent({ type: 'noted' })
    const { store, another } = await bank({ events: [Noted] })
    await store.append('account-1', [Deposited({ amount: 5 }), Noted() as never])
    expect(await store.load(account, 'account-1')).toMatchObject({ state: { balance: 5 }, version: 2 })
    const older = await another({})
    await expect(older.load(account, 'account-1')).rejects.toMatchObject({
      code: 'EVENT_UNKNOWN',
      field: 'type',
      value: 'noted',
    })
    expect(await codeOf(all(older.read('account-1')))).toBe('EVENT_UNKNOWN')
  })

  test('an applier that gives nothing is told so', async () => {
    const wrong = defineAggregate({
      name: 'wrong',
      events: [Closed],
      initial: { n: 0 },
      apply: { closed: () => undefined as never },
    })
    const { store } = await bank()
    await store.append('account-1', [Closed()])
    await expect(store.load(wrong as never, 'account-1')).rejects.toThrow('apply.closed')
  })
})

describe('execute', () => {
  test('loads, decides and appends; what the decision throws refuses it', async () => {
    const { store } = await bank()
    const open = await store.execute(account, 'account-1', (state, { version, stream, now }) => {
      expect([state.isOpen, version, stream, now]).toEqual([false, 0, 'account-1', expect.any(Date)])
      return [Opened({ owner: 'ann' }), Deposited({ amount: 5 })]
    })
    expect(open).toEqual({ state: { owner: 'ann', balance: 5, isOpen: true }, version: 2, appended: 2 })
    const withdraw = (amount: number) =>
      store.execute(account, 'account-1', ({ balance }) => {
        if (amount > balance) throw new Error('too much')
        return amount === 0 ? undefined : Withdrawn({ amount })
      })
    expect(await withdraw(2)).toMatchObject({ state: { balance: 3 }, version: 3, appended: 1 })
    expect(await codeOf(withdraw(4))).toBe('too much')
    expect(await withdraw(0)).toMatchObject({ state: { balance: 3 }, version: 3, appended: 0 })
    expect(await all(store.read('account-1'))).toHaveLength(3)
  })

  test('fifty at once on one account end right', async () => {
    const { store, another } = await bank()
    const other = await another()
    await store.append('account-1', [Opened({ owner: 'ann' }), Deposited({ amount: 100 })])
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) =>
        (i % 2 ? store : other).execute(account, 'account-1', ({ balance }) => {
          if (balance < 4) throw new Error('too much')
          return [Withdrawn({ amount: 4 })]
        }),
      ),
    )
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(25)
    expect(await store.load(account, 'account-1')).toMatchObject({ state: { balance: 0 }, version: 27 })
    const events = await all(store.read('account-1'))
    expect(events.map(({ version }) => version)).toEqual(Array.from({ length: 27 }, (_, i) => i + 1))
  })

  test('decides anew when somebody else was quicker, as often as it is told to', async () => {
    const { store, another } = await bank()
    const other = await another()
    const seen: number[] = []
    const decide = async ({ balance }: { balance: number }) => {
      seen.push(balance)
      if (seen.length < 3) await other.append('account-1', [Deposited({ amount: 1 })])
      return [Closed()]
    }
    expect(await codeOf(store.execute(account, 'account-1', decide, { attempts: 2 }))).toBe('WRONG_VERSION')
    expect(seen).toEqual([0, 1])
    seen.length = 0
    await store.execute(account, 'account-1', decide)
    expect(seen).toEqual([2, 3, 4])
  })

  test('within a transaction of the caller', async () => {
    const { store, begin } = await bank()
    const caller = await begin()
    await store.execute(account, 'account-1', () => [Opened({ owner: 'ann' })], { tx: caller.tx })
    await caller.rollback()
    expect(await store.load(account, 'account-1')).toMatchObject({ version: 0 })
  })
})

describe('snapshots', () => {
  const counted = (version: number, calls: number[]) =>
    defineAggregate({
      name: 'total',
      events: [Deposited],
      initial: { total: 0n },
      apply: {
        deposited: (state, event) => {
          calls.push(event.version)
          return { total: state.total + BigInt(event.data.amount) }
        },
      },
      snapshot: { every: 10, version },
    })

  test('loading goes on where one was kept; another version begins anew', async () => {
    const { store, log } = await bank()
    await deposits(store, 'account-1', 25)
    const calls: number[] = []
    const total = counted(1, calls) as never
    expect(await store.load(total, 'account-1')).toEqual({ state: { total: 325n }, version: 25 })
    await expect.poll(() => log.snapshot('account-1', 'total')).toMatchObject({ version: 25, schema: 1 })
    calls.length = 0
    await store.append('account-1', [Deposited({ amount: 5 })])
    expect(await store.load(total, 'account-1')).toEqual({ state: { total: 330n }, version: 26 })
    expect(calls).toEqual([26])
    const changed: number[] = []
    expect(await store.load(counted(2, changed) as never, 'account-1')).toMatchObject({ version: 26 })
    expect(changed).toHaveLength(26)
  })

  test('a command keeps one too', async () => {
    const { store, log } = await bank()
    await deposits(store, 'account-1', 9)
    const decide = () => [Deposited({ amount: 1 })]
    await store.execute(counted(1, []) as never, 'account-1', decide as never)
    await expect.poll(() => log.snapshot('account-1', 'total')).toMatchObject({ version: 10 })
  })

  test('without one, a stream that has lost events is refused rather than guessed at', async () => {
    const { store, log } = await bank()
    await deposits(store, 'account-1', 3)
    const [first] = await all(store.read('account-1'))
    await log.remove([first?.position as number])
    await expect(store.load(account, 'account-1')).rejects.toMatchObject({
      code: 'EVENTS_MISSING',
      message: expect.stringContaining("events 1 to 1 of stream 'account-1'"),
    })
    await store.erase('account-1')
    expect(await all(store.read('account-1'))).toEqual([])
    expect(await codeOf(store.load(account, 'account-1'))).toBe('EVENTS_MISSING')
    expect(await codeOf(store.append('account-1', [Closed()], { expected: 'none' }))).toBe('WRONG_VERSION')
    expect(await store.append('account-1', [Closed()])).toMatchObject({ version: 4 })
  })

  test('with one over the gap it loads', async () => {
    const { store, log } = await bank()
    await deposits(store, 'account-1', 12)
    const total = counted(1, []) as never
    await store.load(total, 'account-1')
    await expect.poll(() => log.snapshot('account-1', 'total')).toBeDefined()
    await log.remove((await all(store.read('account-1', { limit: 12 }))).map(({ position }) => position))
    expect(await store.load(total, 'account-1')).toEqual({ state: { total: 78n }, version: 12 })
  })
})

describe('upgrades', () => {
  const data = z.object({ cents: z.number(), currency: z.string() })
  const First = defineEvent({ type: 'paid', data: z.object({ amount: z.number() }) })
  const Second = defineEvent({
    type: 'paid',
    data: z.object({ cents: z.number() }),
    version: 1,
    upgrade: (old) => ({ cents: (old as { amount: number }).amount * 100 }),
  })
  const Third = defineEvent({
    type: 'paid',
    data,
    version: 2,
    upgrade: (old, from) => {
      let paid = old as { amount: number } & z.infer<typeof data>
      if (from < 1) paid = { ...paid, cents: paid.amount * 100 }
      return { cents: paid.cents, currency: 'EUR' }
    },
  })

  test('make today’s form of every older one', async () => {
    const { store, another } = await bank({ events: [First] })
    await store.append('payment-1', [First({ amount: 3 }) as never])
    const second = await another({ events: [Second] })
    await second.append('payment-1', [Second({ cents: 450 }) as never])
    const third = await another({ events: [Third] })
    await third.append('payment-1', [Third({ cents: 500, currency: 'CHF' }) as never])
    expect((await all(third.read('payment-1'))).map((event) => event.data)).toEqual([
      { cents: 300, currency: 'EUR' },
      { cents: 450, currency: 'EUR' },
      { cents: 500, currency: 'CHF' },
    ])
    await expect(all(second.read('payment-1'))).rejects.toMatchObject({
      code: 'EVENT_UNKNOWN',
      field: 'version',
      value: 2,
      limit: 1,
    })
  })

  test('that fail, or take their time, say which event it was', async () => {
    const broken = (upgrade: () => unknown) => defineEvent({ type: 'paid', version: 1, upgrade })
    const { store, another } = await bank({ events: [First] })
    await store.append('payment-1', [First({ amount: 3 }) as never])
    const fails = await another({ events: [broken(() => JSON.parse('{'))] })
    await expect(all(fails.read('payment-1'))).rejects.toMatchObject({ code: 'UPGRADE_FAILED', value: 0 })
    const slow = await another({ events: [broken(async () => {})] })
    await expect(all(slow.read('payment-1'))).rejects.toThrow('it returned a promise')
  })
})

import { randomUUID } from 'node:crypto'
import { MillraceError } from 'millrace'
import { defineEvent, EventStore, WrongVersionError } from 'millrace/events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { serverUrl } from '../postgres/postgres.js'
import { engine, freshFile } from './logs.js'
import { account, all, bank, Closed, codeOf, Deposited, Opened } from './stores.js'

describe('append', () => {
  test('gives versions without gaps, and positions that grow', async () => {
    const { store } = await bank()
    const first = await store.append('account-1', [Opened({ owner: 'ann' }), Deposited({ amount: 5 })])
    const second = await store.append('account-1', [Closed()])
    expect([first.version, second.version]).toEqual([2, 3])
    expect(second.position).toBeGreaterThan(first.position)
    expect(first.at).toBeInstanceOf(Date)
    const events = await all(store.read('account-1'))
    expect(events.map(({ version, type, data }) => [version, type, data])).toEqual([
      [1, 'opened', { owner: 'ann' }],
      [2, 'deposited', { amount: 5 }],
      [3, 'closed', undefined],
    ])
    expect(events[1]?.position).toBe(first.position)
  })

  test('of those who expect the same version, one wins', async () => {
    const { store } = await bank()
    await store.append('account-1', [Opened({ owner: 'ann' })])
    const results = await Promise.allSettled(
      [1, 2, 3, 4].map((amount) => store.append('account-1', [Deposited({ amount })], { expected: 1 })),
    )
    const lost = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
    expect(lost).toHaveLength(3)
    expect(lost[0]).toBeInstanceOf(WrongVersionError)
    expect(lost[0]).toMatchObject({
      code: 'WRONG_VERSION',
      stream: 'account-1',
      expected: 1,
      actual: 2,
      message: "stream 'account-1' has version 2, expected was 1; load it again and decide anew",
    })
  })

  test.each([
    ['none', 'account-1', 1],
    ['exists', 'account-2', 0],
    [0, 'account-1', 1],
    [2, 'account-1', 1],
  ] as const)('that expects %s is refused for %s', async (expected, stream, actual) => {
    const { store } = await bank()
    await store.append('account-1', [Opened({ owner: 'ann' })], { expected: 'none' })
    const refused = store.append(stream, [Closed()], { expected })
    await expect(refused).rejects.toMatchObject({ code: 'WRONG_VERSION', actual })
  })

  test('asked for again with its id, answers as it did', async () => {
    const { store } = await bank()
    const options = { id: randomUUID(), expected: 'none', meta: { by: 'ann' } } as const
    const first = await store.append('account-1', [Opened({ owner: 'ann' }), Closed()], options)
    const again = await store.append('account-1', [Opened({ owner: 'ann' }), Closed()], options)
    expect([first.repeated, again]).toEqual([false, { ...first, repeated: true }])
    const events = await all(store.read('account-1'))
    expect(events.map(({ id, meta }) => [id === options.id, meta])).toEqual([
      [true, { by: 'ann' }],
      [false, { by: 'ann' }],
    ])
  })

  test('stores what the schema gives, as any value that the codec keeps', async () => {
    const At = defineEvent({
      type: 'at',
      data: z.object({ on: z.coerce.date(), tag: z.string().default('none') }),
    })
    const { store } = await bank({ events: [At] })
    await store.append('day-1', [At({ on: '2030-01-02' }) as never])
    const [event] = await all(store.read('day-1'))
    expect(event?.data).toEqual({ on: new Date('2030-01-02'), tag: 'none' })
  })

  const refusals: [string, () => unknown, string, string][] = [
    [
      'data',
      () => [Deposited({ amount: -1 })],
      'INVALID_INPUT',
      "data of event 'deposited' is invalid at $.amount",
    ],
    ['nothing', () => [], 'INVALID_OPTION', 'events is []'],
    ['what is no event', () => ['deposited'], 'INVALID_OPTION', 'events[0]'],
    ['an unknown type', () => [{ type: 'other', data: 1 }], 'INVALID_OPTION', 'a type that the store knows'],
    ['too many', () => Array(1_001).fill(Closed()), 'INVALID_OPTION', '1 to 1000'],
  ]
  for (const [what, events, code, message] of refusals) {
    test(`refuses ${what} before anything is written`, async () => {
      const { store } = await bank()
      const error = await store.append('account-1', events() as never).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
      expect(await all(store.read('account-1'))).toEqual([])
    })
  }

  test('refuses names of streams, ids, versions and options that are none', async () => {
    const { store } = await bank()
    const closed = [Closed()]
    for (const name of ['', '$own', 'a\0b', 'x'.repeat(257), '\ud800', 1 as never])
      expect(await codeOf(store.append(name, closed))).toBe('INVALID_OPTION')
    for (const options of [{ id: 'one' }, { expected: -1 }, { expected: 'no' }, { expects: 1 }])
      expect(await codeOf(store.append('a', closed, options as never))).toBe('INVALID_OPTION')
    await expect(store.append("it's ünïcode ✓-1 %_\\", closed)).resolves.toMatchObject({ version: 1 })
  })

  test('refuses data that is too large', async () => {
    const Noted = defineEvent<'noted', string>({ type: 'noted' })
    const { store } = await bank({ events: [Noted], maxData: 100 })
    const large = store.append('note-1', [Noted('x'.repeat(200)) as never])
    expect(await codeOf(large)).toBe('PAYLOAD_TOO_LARGE')
  })
})

describe('in a transaction of the caller', () => {
  test('events are there if and only if it commits', async () => {
    const { store, begin } = await bank()
    const undone = await begin()
    await store.append('account-1', [Closed()], { tx: undone.tx })
    await undone.rollback()
    expect(await all(store.read('account-1'))).toEqual([])
    const done = await begin()
    expect(await store.append('account-1', [Closed()], { tx: done.tx })).toMatchObject({ version: 1 })
    await done.commit()
    expect(await all(store.read('account-1'))).toHaveLength(1)
  })

  test('a conflict leaves it usable, and is thrown at once where the driver is synchronous', async () => {
    const { store, begin } = await bank()
    await store.append('account-1', [Opened({ owner: 'ann' })])
    const caller = await begin()
    const { tx } = caller
    const refused = () => store.append('account-1', [Closed()], { tx, expected: 'none' })
    if (engine === 'postgres') await expect(refused()).rejects.toMatchObject({ code: 'WRONG_VERSION' })
    else expect(refused).toThrow(expect.objectContaining({ code: 'WRONG_VERSION' }))
    await store.append('account-1', [Closed()], { tx, expected: 1 })
    await caller.commit()
    expect(await all(store.read('account-1'))).toHaveLength(2)
  })

  test('refuses schemas that have to be waited for, and a store that is not open', async () => {
    const Slow = defineEvent({ type: 'slow', data: z.string().refine(async () => true) })
    const { store, begin, log } = await bank({ events: [Slow] })
    const caller = await begin()
    const { tx } = caller
    expect(() => store.append('slow-1', [Slow('x') as never], { tx })).toThrow(MillraceError)
    const closed = new EventStore({ log, events: [Closed] })
    expect(() => closed.append('slow-1', [Closed()], { tx })).toThrow('await store.open()')
    await caller.rollback()
    await expect(store.append('slow-1', [Slow('x') as never])).resolves.toMatchObject({ version: 1 })
  })
})

describe('a store', () => {
  test('refuses options that are none', () => {
    const make = (options: object) => () =>
      new EventStore({ log: 'memory:', events: [Closed], ...options } as never)
    expect(make({ log: 'mysql://x' })).toThrow('log is "mysql"; expected \'memory:\'')
    expect(make({ log: {} })).toThrow('a log object')
    expect(make({ projection: [] })).toThrow("did you mean 'projections'?")
    expect(make({ events: [Closed, defineEvent({ type: 'closed' })] })).toThrow(
      'one definition for each type',
    )
    expect(make({ retention: { a: { delete: '1d', compact: '1d' } } })).toThrow('one of delete, archive')
    expect(make({ retention: { a: { archive: '1d' } } })).toThrow('retention.a.to')
    expect(make({ retention: { 'a-b': { delete: '1d' } } })).toThrow('categories')
  })

  test('opens the log that a URL names', async () => {
    const urls: Record<string, () => string> = {
      memory: () => 'memory:',
      sqlite: () => `sqlite:${freshFile()}`,
      postgres: serverUrl,
    }
    const store = new EventStore({ log: urls[engine]?.() as string, events: [Closed] })
    onTestFinished(() => store.close())
    const stream = `closed-${randomUUID()}`
    expect(await store.append(stream, [Closed()])).toMatchObject({ version: 1 })
    expect(await all(store.read(stream))).toHaveLength(1)
  })

  test('that is closed says so', async () => {
    const { store } = await bank()
    await store.close()
    expect(await codeOf(store.append('account-1', [Closed()]))).toBe('CLOSED')
    expect(await codeOf(store.load(account, 'account-1'))).toBe('CLOSED')
  })
})

import { setTimeout as sleep } from 'node:timers/promises'
import { defineEvent, type RecordedEvent } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { all, bank, Closed, codeOf, Deposited, deposits, Opened } from './stores.js'

const versions = async (events: AsyncIterable<{ version: number }>) =>
  (await all(events)).map(({ version }) => version)

describe('read', () => {
  test('gives a stream in order, from a version on, backwards, and so many', async () => {
    const { store } = await bank()
    await deposits(store, 'account-1', 5)
    await deposits(store, 'account-2', 2)
    expect(await versions(store.read('account-1'))).toEqual([1, 2, 3, 4, 5])
    expect(await versions(store.read('account-1', { after: 3 }))).toEqual([4, 5])
    expect(await versions(store.read('account-1', { backwards: true, limit: 2 }))).toEqual([5, 4])
    expect(await versions(store.read('account-1', { backwards: true, after: 3 }))).toEqual([2, 1])
    expect(await versions(store.read('account-1', { limit: 0 }))).toEqual([])
    expect(await versions(store.read('account-3'))).toEqual([])
  })

  test('goes on over pages', async () => {
    const { store } = await bank()
    for (let i = 0; i < 3; i++) await store.append('account-1', Array(800).fill(Deposited({ amount: 1 })))
    const forward = Array.from({ length: 2_400 }, (_, i) => i + 1)
    expect(await versions(store.read('account-1'))).toEqual(forward)
    expect(await versions(store.read('account-1', { backwards: true }))).toEqual(forward.reverse())
    expect(await versions(store.read('account-1', { limit: 1_001 }))).toHaveLength(1_001)
    expect(await versions(store.readAll())).toHaveLength(2_400)
    expect(await versions(store.readAll({ limit: 1_500 }))).toHaveLength(1_500)
  })
})

describe('readAll', () => {
  test('gives all streams by position, some types, from a position on', async () => {
    const { store } = await bank()
    await store.append('account-1', [Opened({ owner: 'ann' })])
    const { position } = await store.append('account-2', [Opened({ owner: 'bob' })])
    await store.append('account-1', [Deposited({ amount: 1 }), Closed()])
    const all1 = await all(store.readAll())
    expect(all1.map(({ stream, type }) => `${stream} ${type}`)).toEqual([
      'account-1 opened',
      'account-2 opened',
      'account-1 deposited',
      'account-1 closed',
    ])
    const some = await all(store.readAll({ after: position, types: ['closed', 'opened'] }))
    expect(some.map(({ type }) => type)).toEqual(['closed'])
    expect(await codeOf(all(store.readAll({ types: ['nothing' as never] })))).toBe('INVALID_OPTION')
  })

  test('leaves out types that only others know', async () => {
    const Other = defineEvent({ type: 'other' })
    const { store, another } = await bank({ events: [Other] })
    await store.append('account-1', [Other() as never, Closed()])
    const types = (await all((await another({})).readAll())).map(({ type }) => type)
    expect(types).toEqual(['closed'])
  })
})

describe('follow', () => {
  test('gives what is there and what comes, nothing twice and nothing left out, while others write', async () => {
    const { store, another } = await bank()
    const other = await another()
    await deposits(store, 'account-0', 3)
    const signal = new AbortController()
    const seen: RecordedEvent[] = []
    const following = (async () => {
      for await (const event of store.follow({ signal: signal.signal })) seen.push(event)
    })()
    const writers = [1, 2, 3, 4].map(async (n) => {
      for (let amount = 1; amount <= 20; amount++) {
        await (n % 2 ? store : other).append(`account-${n}`, [Deposited({ amount })])
        if (amount % 7 === n) await sleep(1)
      }
    })
    await Promise.all(writers)
    await expect.poll(() => seen.length, { timeout: 10_000 }).toBe(83)
    signal.abort()
    await following
    const positions = seen.map(({ position }) => position)
    expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b))
    for (const n of [1, 2, 3, 4])
      expect(seen.filter(({ stream }) => stream === `account-${n}`).map(({ version }) => version)).toEqual(
        Array.from({ length: 20 }, (_, i) => i + 1),
      )
  })

  test('ends when the store is closed', async () => {
    const { store } = await bank()
    await store.append('account-1', [Closed()])
    const events = store.follow()
    expect((await events.next()).value?.type).toBe('closed')
    const waiting = events.next()
    // It waits for what comes next by then.
    await sleep(20)
    const start = performance.now()
    await store.close()
    expect((await waiting).done).toBe(true)
    expect(performance.now() - start).toBeLessThan(500)
  })

  test('ends with its signal while it waits, and when its reader leaves', async () => {
    const { store } = await bank()
    await store.append('account-1', [Closed()])
    const signal = new AbortController()
    const events = store.follow({ signal: signal.signal })
    expect((await events.next()).value?.type).toBe('closed')
    const waiting = events.next()
    signal.abort()
    expect((await waiting).done).toBe(true)
    for await (const event of store.follow({ types: ['closed'] })) {
      expect(event.version).toBe(1)
      break
    }
  })
})

/** What policies remove: never what a projection has not seen, and never so that a wrong state could be loaded. */
import { defineAggregate, defineProjection, type RecordedEvent } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { all, bank, Closed, codeOf, Deposited, deposits, storeOn } from './stores.js'
import { freshName } from './tables.js'

const day = 86_400_000
const left = async (events: AsyncIterable<RecordedEvent>) =>
  (await all(events)).map(({ stream, version }) => `${stream}@${version}`)

describe('retention', () => {
  test('deletes what is old enough in its category, and nothing else', async () => {
    const { store, clock } = await bank({ retention: { session: { delete: '30d' } } })
    await deposits(store, 'session-1', 2)
    await deposits(store, 'account-1', 1)
    await clock.advance(20 * day)
    await deposits(store, 'session-1', 1)
    await deposits(store, 'sessions-1', 1)
    expect(await store.tidy()).toEqual({ removed: {}, more: false, busy: false })
    await clock.advance(11 * day)
    expect(await store.tidy()).toEqual({ removed: { session: 2 }, more: false, busy: false })
    expect(await left(store.readAll())).toEqual(['account-1@1', 'session-1@3', 'sessions-1@1'])
    expect(await store.append('session-1', [Closed()])).toMatchObject({ version: 4 })
  })

  test('compacts to the latest of each stream, which then still loads', async () => {
    const price = defineAggregate({
      name: 'price',
      events: [Deposited],
      initial: { amount: 0 },
      apply: { deposited: (_, { data }) => data },
    })
    const { store, clock } = await bank({ retention: { price: { compact: '1d' } } })
    await deposits(store, 'price-1', 4)
    await deposits(store, 'price-2', 1)
    await clock.advance(2 * day)
    expect(await store.tidy()).toMatchObject({ removed: { price: 3 } })
    expect(await left(store.readAll())).toEqual(['price-1@4', 'price-2@1'])
    expect(await store.load(price as never, 'price-1')).toEqual({ state: { amount: 4 }, version: 4 })
  })

  test('archives before it removes, and removes nothing when that fails', async () => {
    const archived: string[] = []
    let fails = true
    const { store, clock } = await bank({
      retention: {
        order: {
          archive: '1d',
          to: async (events) => {
            if (fails) throw new Error('no room')
            archived.push(
              ...events.map(({ stream, version, data }) => `${stream}@${version} ${JSON.stringify(data)}`),
            )
          },
        },
      },
    })
    await deposits(store, 'order-1', 2)
    await clock.advance(2 * day)
    expect(await codeOf(store.tidy())).toBe('no room')
    expect(await left(store.readAll())).toHaveLength(2)
    fails = false
    await store.tidy()
    expect(archived).toEqual(['order-1@1 {"amount":1}', 'order-1@2 {"amount":2}'])
    expect(await left(store.readAll())).toEqual([])
  })

  test('does a bounded amount at a time', async () => {
    const { store, clock } = await bank({ retention: { session: { delete: 0 } } })
    for (let i = 0; i < 3; i++) await store.append('session-1', Array(800).fill(Closed()))
    await clock.advance(1)
    expect(await store.tidy()).toEqual({ removed: { session: 2_000 }, more: true, busy: false })
    expect(await store.tidy()).toEqual({ removed: { session: 400 }, more: false, busy: false })
  })

  test('leaves what any projection has not seen, whoever’s it is, and what a rebuild still reads', async () => {
    const { store, clock, another } = await bank()
    const name = freshName('late')
    let fails = true
    const late = defineProjection({
      name,
      events: [Deposited],
      transactional: false,
      on: {
        deposited: ({ version }) => {
          if (version === 3 && fails) throw new Error('not yet')
        },
      },
    })
    const reader = await another({ projections: [late] })
    const tidier = await another({ retention: { session: { delete: '1d' } } })
    await deposits(store, 'session-1', 4)
    await clock.advance(2 * day)
    expect(await tidier.tidy()).toMatchObject({ removed: {} })
    await codeOf(reader.catchUp())
    expect(await tidier.tidy()).toMatchObject({ removed: { session: 2 } })
    const rebuilding = new AbortController()
    reader.on('error', () => rebuilding.abort(new Error('stopped')))
    expect(await codeOf(reader.rebuild(late, { signal: rebuilding.signal }))).toBe('stopped')
    fails = false
    await reader.catchUp()
    expect(await tidier.tidy()).toMatchObject({ removed: {} })
    await reader.abandon(late)
    expect(await tidier.tidy()).toMatchObject({ removed: { session: 2 } })
  })

  test('is done by one at a time, and by workers by themselves', async () => {
    const gates: (() => void)[] = []
    const { store, clock, another } = await bank({
      retention: {
        order: { archive: '1d', to: () => new Promise<void>((resolve) => gates.push(resolve)) },
      },
    })
    const other = await another()
    await deposits(store, 'order-1', 1)
    await clock.advance(2 * day)
    const worker = store.worker({ tidy: '5ms', handleSignals: false })
    await worker.start()
    await expect.poll(() => gates.length).toBe(1)
    expect(await other.tidy()).toEqual({ removed: {}, more: false, busy: true })
    gates[0]?.()
    await expect.poll(() => left(store.readAll())).toEqual([])
    await worker.stop()
  })

  test('without a policy keeps everything', async () => {
    const { store, log, clock } = await bank()
    await deposits(store, 'account-1', 2)
    await clock.advance(10_000 * day)
    const plain = await storeOn(log)
    expect(await plain.tidy()).toEqual({ removed: {}, more: false, busy: false })
    expect(await left(store.readAll())).toHaveLength(2)
  })
})

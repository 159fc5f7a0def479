/** What policies remove: never what a projection has not seen, and never so that a wrong state could be loaded. */
import {
  type Archive,
  type ArchivedEvent,
  defineAggregate,
  defineEvent,
  defineProjection,
  type EventStoreEvents,
  type RecordedEvent,
} from 'millrace/events'
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
    expect(await store.tidy()).toEqual({ removed: {}, more: false, busy: false, failed: {} })
    await clock.advance(11 * day)
    expect(await store.tidy()).toEqual({ removed: { session: 2 }, more: false, busy: false, failed: {} })
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
    const errors: EventStoreEvents['error'][] = []
    store.on('error', (error) => errors.push(error))
    expect(await store.tidy()).toMatchObject({ removed: {}, failed: { order: new Error('no room') } })
    expect(errors).toMatchObject([{ error: new Error('no room'), during: "retention of category 'order'" }])
    expect(await left(store.readAll())).toHaveLength(2)
    fails = false
    await store.tidy()
    expect(archived).toEqual(['order-1@1 {"amount":1}', 'order-1@2 {"amount":2}'])
    expect(await left(store.readAll())).toEqual([])
  })

  test('of one category goes on when that of another fails', async () => {
    const { store, clock } = await bank({
      retention: {
        order: { archive: '1d', to: () => Promise.reject(new Error('no room')) },
        session: { delete: '1d' },
      },
    })
    store.on('error', () => {})
    await deposits(store, 'order-1', 1)
    await deposits(store, 'session-1', 2)
    await clock.advance(2 * day)
    expect(await store.tidy()).toMatchObject({
      removed: { session: 2 },
      failed: { order: expect.any(Error) },
    })
    expect(await left(store.readAll())).toEqual(['order-1@1'])
  })

  test('archives events as they are stored, also those that the store does not know', async () => {
    const data = { total: 5, on: new Date(0) }
    const Billed = defineEvent<'billed', typeof data>({ type: 'billed', version: 3 })
    const { store, clock, another } = await bank({ events: [Billed] })
    await store.append('order-1', [Billed(data) as never, Closed()], { meta: 'ann' })
    await clock.advance(2 * day)
    const archived: ArchivedEvent[] = []
    const older = await another({
      retention: { order: { archive: '1d', to: (events) => archived.push(...events) } },
    })
    expect(await older.tidy()).toMatchObject({ removed: { order: 2 } })
    expect(archived).toMatchObject([
      { type: 'billed', schema: 3, data, meta: 'ann', stream: 'order-1', version: 1, at: expect.any(Date) },
      { type: 'closed', schema: 0, data: undefined },
    ])
  })

  test('gives an archive so much time, and a worker that stops waits for it within its grace', async () => {
    const signals: AbortSignal[] = []
    const to: Archive = (_, { signal }) => {
      signals.push(signal)
      return new Promise(() => {})
    }
    const { store, clock, another } = await bank({ retention: { order: { archive: '1d', to, timeout: 20 } } })
    await deposits(store, 'order-1', 1)
    await clock.advance(2 * day)
    store.on('error', () => {})
    expect(await store.tidy()).toMatchObject({ failed: { order: { code: 'WAIT_TIMEOUT' } } })
    const patient = await another({ retention: { order: { archive: '1d', to, timeout: 0 } } })
    const worker = patient.worker({ tidy: '5ms', handleSignals: false })
    await worker.start()
    await expect.poll(() => signals.length).toBe(2)
    await worker.stop({ grace: '20ms' })
    expect(signals.map(({ reason }) => reason.code)).toEqual(['WAIT_TIMEOUT', 'SHUTDOWN'])
    const tidying = codeOf(patient.tidy())
    await expect.poll(() => signals.length).toBe(3)
    await patient.close()
    expect(await tidying).toBe('CLOSED')
    expect(await left(store.readAll())).toEqual(['order-1@1'])
  })

  test('does a bounded amount at a time', async () => {
    const { store, clock } = await bank({ retention: { session: { delete: 0 } } })
    for (let i = 0; i < 3; i++) await store.append('session-1', Array(800).fill(Closed()))
    await clock.advance(1)
    expect(await store.tidy()).toEqual({ removed: { session: 2_000 }, more: true, busy: false, failed: {} })
    expect(await store.tidy()).toEqual({ removed: { session: 400 }, more: false, busy: false, failed: {} })
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
    expect(await other.tidy()).toEqual({ removed: {}, more: false, busy: true, failed: {} })
    gates[0]?.()
    await expect.poll(() => left(store.readAll())).toEqual([])
    await worker.stop()
  })

  test('without a policy keeps everything', async () => {
    const { store, log, clock } = await bank()
    await deposits(store, 'account-1', 2)
    await clock.advance(10_000 * day)
    const plain = await storeOn(log)
    expect(await plain.tidy()).toEqual({ removed: {}, more: false, busy: false, failed: {} })
    expect(await left(store.readAll())).toHaveLength(2)
  })
})

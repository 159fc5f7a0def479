import { defineProjection } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { caughtUp, summed, working } from './followers.js'
import { all, bank, Closed, codeOf, Deposited, deposits, Opened, storeOn } from './stores.js'
import { freshName } from './tables.js'

describe('a projection', () => {
  test('follows the log, from its first event on', async () => {
    const { store, projection, read, seen } = await summed()
    await deposits(store, 'account-1', 3)
    await working(store)
    await store.append('account-2', [Opened({ owner: 'bob' }), Deposited({ amount: 7 }), Closed()])
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 6/3', 'account-2: 7/1'])
    expect(seen).toEqual(['account-1@1', 'account-1@2', 'account-1@3', 'account-2@2'])
  })

  test('goes on where it was', async () => {
    const { store, projection, read, seen } = await summed()
    await deposits(store, 'account-1', 3)
    const first = await working(store)
    await caughtUp(store, projection)
    await first.stop()
    await deposits(store, 'account-1', 2)
    await working(store)
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 9/5'])
    expect(seen).toHaveLength(5)
  })

  test('catches up in the caller’s process, too', async () => {
    const { store, projection, read } = await summed()
    await deposits(store, 'account-1', 3)
    await store.catchUp(projection)
    expect(await read()).toEqual(['account-1: 6/3'])
    await store.catchUp()
    expect(await codeOf(store.reached(projection, 1e9, { timeout: 5 }))).toBe('WAIT_TIMEOUT')
  })

  test('in parts handles every stream in order, each event once', async () => {
    const { store, projection, read, seen } = await summed(async () => {}, { parts: 4 })
    const streams = Array.from({ length: 12 }, (_, i) => `account-${i}`)
    await Promise.all(streams.map((stream) => deposits(store, stream, 8)))
    await working(store, { batch: 5 })
    await caughtUp(store, projection)
    expect(await read()).toEqual(streams.map((stream) => `${stream}: 36/8`).sort())
    for (const stream of streams)
      expect(seen.filter((one) => one.startsWith(`${stream}@`))).toEqual(
        Array.from({ length: 8 }, (_, i) => `${stream}@${i + 1}`),
      )
    const [stats] = (await store.stats()).projections
    expect(stats?.parts).toHaveLength(4)
  })

  test('that begins at the end sees only what comes', async () => {
    const { store, log } = await bank()
    await deposits(store, 'account-1', 3)
    const seen: number[] = []
    const name = freshName('news')
    const news = defineProjection({
      name,
      events: [Deposited],
      from: 'end',
      transactional: false,
      on: { deposited: ({ version }) => seen.push(version) },
    })
    const second = await storeOn(log, { projections: [news] })
    await deposits(store, 'account-1', 2)
    await second.catchUp()
    expect(seen).toEqual([4, 5])
  })

  test('without a transaction has none to write with', async () => {
    const { store } = await summed((_, { tx }) => tx(), { transactional: false })
    await deposits(store, 'account-1', 1)
    await expect(store.catchUp()).rejects.toThrow('has transactional: false')
  })

  test('keeps its number of parts, and its name', async () => {
    const { store, log } = await bank()
    const define = (parts: number) =>
      defineProjection({ name: 'same', events: [Closed], on: { closed: () => {} }, parts })
    const first = await storeOn(log, { projections: [define(2)] })
    await expect(storeOn(log, { projections: [define(3)] })).rejects.toThrow(
      "parts of projection 'same' is 3",
    )
    expect(() => define(0)).toThrow('parts')
    const twice = storeOn(log, { projections: [define(2), { ...define(2), name: 'Same' }] })
    await expect(twice).rejects.toThrow('each name once')
    expect(await first.table('same')).toBe('same_1')
    await store.forget('same')
    expect(await codeOf(first.table('same'))).toBe('STORE_REFUSED')
  })

  test('makes its first table once, however many open at the same time', async () => {
    const { log, anotherLog } = await bank()
    let made = 0
    const once = () =>
      defineProjection({
        name: 'once',
        events: [Closed],
        on: { closed: () => {} },
        create: ({ table, generation, tx }) => {
          expect([table, generation, tx() === undefined]).toEqual(['once_1', 1, false])
          made++
        },
        drop: () => {},
      })
    const logs = await Promise.all([log, anotherLog(), anotherLog()])
    await Promise.all(logs.map((one) => storeOn(one, { projections: [once()] })))
    expect(made).toBe(1)
  })
})

describe('a projection that was forgotten', () => {
  test('begins anew when a store that has it opens, with a table of its own', async () => {
    const { store, projection, read, process } = await summed()
    await deposits(store, 'account-1', 2)
    await store.catchUp()
    await store.forget(projection.name)
    expect((await store.stats()).projections).toEqual([])
    const again = await process()
    expect(await read()).toEqual([])
    await again.catchUp()
    expect(await read()).toEqual(['account-1: 3/2'])
  })
})

describe('statistics', () => {
  test('tell how far behind it is, in positions and time', async () => {
    const { store, projection, clock } = await summed()
    const quiet = (await store.stats()).projections[0]
    expect(quiet).toMatchObject({ name: projection.name, known: true, generation: 1, behind: 0, age: 0 })
    await store.append('account-1', [Deposited({ amount: 1 }), Closed(), Deposited({ amount: 1 })])
    const { end, projections } = await store.stats()
    expect(projections[0]).toMatchObject({ position: 0, behind: end, building: undefined })
    expect(projections[0]?.parts).toEqual([{ position: 0, worker: undefined }])
    expect(projections[0]?.age).toBeGreaterThanOrEqual(Math.max(0, Date.now() - clock.now()))
    const worker = await working(store)
    await caughtUp(store, projection)
    const after = (await store.stats()).projections[0]
    expect(after).toMatchObject({ position: end, behind: 0, age: 0 })
    expect(after?.parts).toEqual([{ position: end, worker: worker.id }])
    expect(await all(store.skipped(projection))).toEqual([])
  })

  test('show projections of other processes, and those that were left behind', async () => {
    const { store, projection, another } = await summed()
    await deposits(store, 'account-1', 1)
    expect((await (await another({})).stats()).projections).toMatchObject([
      { name: projection.name, known: false, behind: 1, age: undefined },
    ])
  })
})

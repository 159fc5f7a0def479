/** Handlers that throw, workers that die between handling and checkpoint, leases that are lost. */
import { defineEvent, defineProjection, type EventLog, type EventStoreEvents } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { caughtUp, gate, summed, working } from './followers.js'
import { all, bank, deposits, storeOn, withVerbs } from './stores.js'
import { freshName } from './tables.js'

describe('a handler that throws', () => {
  test('is tried again until it works; nothing is passed over, and what it had written is undone', async () => {
    let broken = true
    const { store, projection, read, seen, errors } = await summed(({ version }) => {
      if (version === 3 && broken) throw new Error('not yet')
    })
    await deposits(store, 'account-1', 5)
    await working(store)
    await expect.poll(() => errors.length).toBeGreaterThan(3)
    expect(await read()).toEqual(['account-1: 3/2'])
    expect(errors[2]).toMatchObject({
      error: new Error('not yet'),
      during: `projection '${projection.name}'`,
      projection: projection.name,
      event: { stream: 'account-1', version: 3, type: 'deposited' },
      tries: 3,
      retryIn: 5,
    })
    expect((await store.stats()).projections[0]?.behind).toBe(3)
    broken = false
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 15/5'])
    expect(seen.at(-1)).toBe('account-1@5')
  })

  test('or takes too long, which aborts its signal, is tried again', async () => {
    const reasons: unknown[] = []
    const { store, projection, read, errors } = await summed(
      async (_, { signal }) => {
        if (errors.length > 1) return
        await new Promise<void>((resolve) =>
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason)
            resolve()
          }),
        )
      },
      { timeout: 20 },
    )
    await deposits(store, 'account-1', 2)
    await working(store)
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 3/2'])
    expect(reasons).toMatchObject([{ code: 'JOB_TIMEOUT' }, { code: 'JOB_TIMEOUT' }])
    expect(errors).toMatchObject([{ tries: 1 }, { tries: 2 }])
  })

  test('holds up its own part only', async () => {
    const { store, projection, read } = await summed(
      ({ stream }) => {
        if (stream === 'account-0') throw new Error('no')
      },
      { parts: 8 },
    )
    const streams = Array.from({ length: 10 }, (_, i) => `account-${i}`)
    for (const stream of streams) await deposits(store, stream, 1)
    await working(store)
    const stuck = async () =>
      (await store.stats()).projections[0]?.parts.filter(({ position }) => position < 10)
    await expect.poll(async () => (await stuck())?.length).toBe(1)
    expect((await read())?.length).toBeGreaterThan(5)
    expect(projection.parts).toBe(8)
  })

  test('is set aside after some tries where that is wanted, and shown', async () => {
    const { store, projection, read, seen } = await summed(
      ({ version }) => {
        if (version === 2) throw new Error('poison')
      },
      { skip: { after: 3 } },
    )
    const skipped: EventStoreEvents['skipped'][] = []
    store.on('skipped', (event) => skipped.push(event))
    await deposits(store, 'account-1', 3)
    await working(store)
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 4/2'])
    expect(seen.filter((one) => one === 'account-1@2').length).toBeGreaterThanOrEqual(3)
    expect(skipped).toMatchObject([{ projection: projection.name, event: { version: 2 } }])
    expect(await all(store.skipped(projection))).toMatchObject([
      {
        generation: 1,
        event: { stream: 'account-1', version: 2, type: 'deposited' },
        failure: { message: 'poison' },
        skippedAt: expect.any(Date),
      },
    ])
    expect((await all(store.readAll())).map(({ type }) => type)).toEqual(Array(3).fill('deposited'))
  })

  test('is set aside by a caller who catches up, too', async () => {
    const { store, read } = await summed(
      ({ version }) => {
        if (version !== 2) throw new Error('poison')
      },
      { skip: { after: 2 } },
    )
    await deposits(store, 'account-1', 3)
    await store.catchUp()
    expect(await read()).toEqual(['account-1: 2/1'])
  })
})

describe('an event that is too new', () => {
  test('stops the part rather than being guessed at, never skipped, until a newer deploy takes it', async () => {
    const { log, anotherLog } = await bank()
    const name = freshName('paid')
    const define = (version: number, seen: unknown[]) => {
      const Paid = defineEvent({ type: 'paid', version })
      const projection = defineProjection({
        name,
        events: [Paid],
        transactional: false,
        skip: { after: 1 },
        on: { paid: (event) => seen.push(event.version) },
      })
      return { Paid, projection }
    }
    const old: unknown[] = []
    const young: unknown[] = []
    const older = define(1, old)
    const newer = define(2, young)
    const olderStore = await storeOn(log, { events: [older.Paid], projections: [older.projection] })
    const newerStore = await storeOn(await anotherLog(), {
      events: [newer.Paid],
      projections: [newer.projection],
    })
    const told = gate<EventStoreEvents['error']>()
    olderStore.on('error', told.open)
    await olderStore.append('pay-1', [older.Paid() as never])
    await newerStore.append('pay-1', [newer.Paid() as never])
    await working(olderStore)
    expect((await told.passed).error).toMatchObject({ code: 'EVENT_UNKNOWN' })
    await expect.poll(async () => (await olderStore.stats()).projections[0]?.position).toBe(1)
    await working(newerStore)
    await caughtUp(newerStore, newer.projection)
    expect([old, young]).toEqual([[1], [2]])
    expect(await all(newerStore.skipped(newer.projection))).toEqual([])
  })
})

describe('a worker that dies between handler and checkpoint', () => {
  const dying = (verb: 'advance', at: number) => {
    let calls = 0
    return (log: EventLog) =>
      withVerbs(log, {
        [verb]: (...args: [never, unknown?]) => {
          if (++calls === at) return Promise.reject(new Error('the connection is gone'))
          return (log[verb] as (...all: unknown[]) => unknown)(...args)
        },
      } as Partial<EventLog>)
  }

  test('has done nothing where its writes are in the transaction', async () => {
    const { store, projection, read, seen, errors } = await summed(() => {}, {}, dying('advance', 2))
    await deposits(store, 'account-1', 6)
    await working(store, { batch: 2 })
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 21/6'])
    expect(seen.length).toBeGreaterThan(6)
    expect(errors).toMatchObject([{ error: new Error('the connection is gone') }])
  })

  test('handles what it handled again where they are not, in order', async () => {
    const { store, projection, seen } = await summed(() => {}, { transactional: false }, dying('advance', 2))
    await deposits(store, 'account-1', 6)
    await working(store, { batch: 2 })
    await caughtUp(store, projection)
    const versions = seen.map((one) => Number(one.split('@')[1]))
    expect(versions).toEqual([1, 2, 3, 4, 3, 4, 5, 6])
  })

  test('whose commit went through although its answer was lost, does not do it twice', async () => {
    let commits = 0
    const { store, projection, read, seen } = await summed(
      () => {},
      {},
      (log) =>
        withVerbs(log, {
          begin: async () => {
            const transaction = await log.begin()
            return {
              tx: transaction.tx,
              rollback: () => transaction.rollback(),
              commit: async () => {
                await transaction.commit()
                if (++commits === 2) throw new Error('the answer is lost')
              },
            }
          },
        }),
    )
    await deposits(store, 'account-1', 6)
    await working(store, { batch: 2 })
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 21/6'])
    expect(seen).toHaveLength(6)
  })
})

import { setTimeout as sleep } from 'node:timers/promises'
import type { EventStoreEvents, RebuildProgress } from 'millrace/events'
import { describe, expect, test } from 'vitest'
import { caughtUp, summed, working } from './followers.js'
import { codeOf, Deposited, deposits, storeOn, withVerbs } from './stores.js'

describe('a rebuild', () => {
  test('makes the next generation by other handlers, and takes the live one’s place', async () => {
    const swaps: string[] = []
    const { store, projection, process, sums, read } = await summed(() => {}, {
      swapped: ({ table, previous, generation, tx }) =>
        swaps.push(`${previous} → ${table}, ${generation}, ${tx() !== undefined}`),
    })
    await deposits(store, 'account-1', 4)
    await store.catchUp()
    const [first, told, progress] = [await store.table(projection), [] as unknown[], [] as RebuildProgress[]]
    expect(first).toMatch(/^sums_\d+_\d+_1$/)
    const newer = await process(({ data }) => {
      if (data.amount > 3) throw new Error('too much')
    })
    newer.on('swapped', (event) => told.push(event))
    await expect(newer.catchUp()).resolves.toBeUndefined()
    const second = await store.rebuild(projection, { keepOld: 0, onProgress: (at) => progress.push(at) })
    expect(second).toEqual({ generation: 2, table: first.replace(/1$/, '2') })
    expect(swaps).toEqual([`${first} → ${second.table}, 2, true`])
    expect(await read()).toEqual(['account-1: 10/4'])
    await expect.poll(() => sums.read(first)).toBeUndefined()
    expect(progress.at(-1)).toMatchObject({ generation: 2, end: 4 })
    await store.append('account-1', [Deposited({ amount: 5 })])
    await store.catchUp()
    expect(await read()).toEqual(['account-1: 15/5'])
    expect((await store.rebuild(projection, { keepOld: '10m' })).generation).toBe(3)
    // Readers that have its name already find it for a while, and the next rebuild removes it.
    await store.close()
    expect(await sums.read(second.table)).toEqual(['account-1: 15/5'])
    await (await process()).rebuild(projection.name, { keepOld: 0 })
    expect(await sums.read(second.table)).toBeUndefined()
  })

  test('beside workers and under writes: readers see one complete generation or the other', async () => {
    const { store, projection, process, read } = await summed(() => {}, { parts: 3 })
    const other = await process()
    await Promise.all([1, 2, 3, 4].map((n) => deposits(store, `account-${n}`, 40)))
    await working(store)
    await working(other, { batch: 10 })
    await caughtUp(store, projection)
    const writing = new AbortController()
    const written = (async () => {
      let count = 0
      for (; !writing.signal.aborted; count++) {
        await store.append('account-5', [Deposited({ amount: 1 })])
        await sleep(2)
      }
      return count
    })()
    let least = 0
    const reading = (async () => {
      while (!writing.signal.aborted) {
        const events = (await read())?.reduce((sum, row) => sum + Number(row.split('/')[1]), 0)
        expect(events).toBeGreaterThanOrEqual(least)
        least = events as number
        await sleep(5)
      }
    })()
    const rebuilt = await (await process()).rebuild(projection.name)
    await sleep(50)
    writing.abort()
    const count = await written
    await reading
    expect(rebuilt.generation).toBe(2)
    expect(least).toBeGreaterThanOrEqual(160)
    await caughtUp(store, projection)
    expect(await read()).toEqual([
      ...[1, 2, 3, 4].map((n) => `account-${n}: 820/40`),
      `account-5: ${count}/${count}`,
    ])
  })

  test('that was broken off goes on where it was', async () => {
    const stop = new AbortController()
    const { store, projection, process, read, seen } = await summed()
    await deposits(store, 'account-1', 6)
    await store.catchUp()
    seen.length = 0
    const broken = await process(({ version }) => {
      if (version === 4) throw new Error('no')
    })
    broken.on('error', () => stop.abort(new Error('killed')))
    expect(await codeOf(broken.rebuild(projection.name, { signal: stop.signal }))).toBe('killed')
    const { building } = (await store.stats()).projections[0] ?? {}
    expect(building).toEqual({ generation: 2, position: 3 })
    expect(await read()).toEqual(['account-1: 21/6'])
    seen.length = 0
    expect((await store.rebuild(projection)).generation).toBe(2)
    expect(seen).toEqual(['account-1@4', 'account-1@5', 'account-1@6'])
    expect(await read()).toEqual(['account-1: 21/6'])
  })

  test('can be given up, also while it is under way', async () => {
    const { store, projection, process, read, sums } = await summed()
    await deposits(store, 'account-1', 2)
    await store.catchUp()
    const failing = await process(() => {
      throw new Error('no')
    })
    const errors: EventStoreEvents['error'][] = []
    failing.on('error', (error) => errors.push(error))
    const rebuilding = codeOf(failing.rebuild(projection.name, { tries: 1_000_000 }))
    await expect.poll(() => errors.length).toBeGreaterThan(0)
    expect(await store.abandon(projection)).toBe(true)
    expect(await rebuilding).toBe('LEASE_LOST')
    expect(await store.abandon(projection)).toBe(false)
    const live = await store.table(projection)
    expect([await read(), await sums.read(live.replace(/1$/, '2'))]).toEqual([['account-1: 3/2'], undefined])
    expect((await store.rebuild(projection)).generation).toBeGreaterThan(1)
    expect(await read()).toEqual(['account-1: 3/2'])
  })

  test('by two at once is one', async () => {
    const { store, projection, process, read } = await summed(() => {}, { parts: 2 })
    const other = await process()
    await deposits(store, 'account-1', 5)
    await deposits(store, 'account-2', 5)
    const both = await Promise.all([store.rebuild(projection), other.rebuild(projection.name)])
    expect(both.map(({ generation }) => generation)).toEqual([2, 2])
    expect(await read()).toEqual(['account-1: 15/5', 'account-2: 15/5'])
  })

  test('never takes readers back: what the live one has seen meanwhile is in the new one, too', async () => {
    const { store, projection, anotherLog, read } = await summed()
    await deposits(store, 'account-1', 3)
    await store.catchUp()
    const log = await anotherLog()
    let asked = false
    // The live generation moves on at the last moment, and the rebuild hears nothing of it.
    const late = withVerbs(log, {
      subscribe: () => () => {},
      hold: async (request) => {
        if (request.generation === 1 && !asked) {
          asked = true
          await store.append('account-1', [Deposited({ amount: 4 })])
          await store.catchUp()
        }
        return log.hold(request)
      },
    })
    const rebuilding = await storeOn(late, { projections: [projection] })
    await rebuilding.rebuild(projection)
    expect([asked, await read()]).toEqual([true, ['account-1: 10/4']])
  })

  test('takes no part from another that is at it', async () => {
    const { store, projection, anotherLog, read } = await summed(() => {}, { parts: 2 })
    await deposits(store, 'account-1', 3)
    const log = await anotherLog()
    let refusals = 0
    // It comes second for the first part, always.
    const second = withVerbs(log, {
      hold: async (request) => {
        if (request.generation !== 2 || request.part !== 0) return log.hold(request)
        refusals++
        return undefined
      },
    })
    const late = (await storeOn(second, { projections: [projection] })).rebuild(projection)
    await expect.poll(() => refusals).toBeGreaterThan(1)
    expect((await store.rebuild(projection)).generation).toBe(2)
    expect((await late).generation).toBe(2)
    expect(await read()).toEqual(['account-1: 6/3'])
  })

  test('whose swap fails leaves the live one as it was, and tries again', async () => {
    let swaps = 0
    const { store, projection, read, errors } = await summed(() => {}, {
      swapped: () => {
        if (++swaps === 1) throw new Error('the view is locked')
      },
    })
    await deposits(store, 'account-1', 3)
    await store.catchUp()
    expect((await store.rebuild(projection)).generation).toBe(2)
    expect(swaps).toBe(2)
    expect(errors).toMatchObject([{ during: `rebuild of projection '${projection.name}'` }])
    expect(await read()).toEqual(['account-1: 6/3'])
  })

  test('frees a projection whose live generation is stuck', async () => {
    const { store, projection, process, read } = await summed(({ version }) => {
      if (version === 2) throw new Error('a bug')
    })
    await deposits(store, 'account-1', 3)
    const worker = await working(store)
    await expect.poll(async () => (await store.stats()).projections[0]?.position).toBe(1)
    const repaired = await process(() => {})
    await repaired.rebuild(projection.name)
    await worker.stop()
    expect(await read()).toEqual(['account-1: 6/3'])
  })
})

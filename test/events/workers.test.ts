/** Several workers, leases that are lost, and workers that stop. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { caughtUp, gate, summed, working } from './followers.js'
import { codeOf, Deposited, deposits } from './stores.js'

describe('workers', () => {
  test('share the parts, and handle each event once while others write', async () => {
    const { store, projection, process, read } = await summed(() => {}, { parts: 4 })
    const other = await process()
    const first = await working(store, { concurrency: 2, batch: 7 })
    const second = await working(other, { concurrency: 2, batch: 7 })
    const streams = Array.from({ length: 8 }, (_, i) => `account-${i}`)
    await Promise.all(streams.map((stream, i) => deposits(i % 2 ? store : other, stream, 15)))
    await caughtUp(store, projection)
    expect(await read()).toEqual(streams.map((stream) => `${stream}: 120/15`))
    expect([first.active, second.active]).toEqual([2, 2])
    const owners = (await store.stats()).projections[0]?.parts.map(({ worker }) => worker)
    expect(new Set(owners)).toEqual(new Set([first.id, second.id]))
  })

  test('one that has fewer places than there are parts has them take turns', async () => {
    const { store, projection, read } = await summed(() => {}, { parts: 7 })
    const streams = Array.from({ length: 20 }, (_, i) => `account-${i}`)
    await Promise.all(streams.map((stream) => deposits(store, stream, 3)))
    const worker = await working(store, { concurrency: 2 })
    await caughtUp(store, projection)
    expect(await read()).toEqual(streams.map((stream) => `${stream}: 6/3`).sort())
    expect(worker.active).toBeLessThanOrEqual(2)
  })

  test('one takes over what another gave back', async () => {
    const { store, projection, process, read } = await summed()
    const other = await process()
    const first = await working(store)
    await deposits(store, 'account-1', 3)
    await caughtUp(store, projection)
    const second = await working(other)
    expect(second.active).toBe(0)
    await first.stop()
    await deposits(store, 'account-1', 2)
    await caughtUp(store, projection)
    expect([await read(), second.active]).toEqual([['account-1: 9/5'], 1])
  })

  test('one that lost its lease without knowing goes no further', async () => {
    const entered = gate()
    const leave = gate()
    const mine: number[] = []
    const { store, projection, process, clock } = await summed(
      async ({ version }) => {
        mine.push(version)
        entered.open()
        await leave.passed
      },
      { transactional: false },
    )
    await deposits(store, 'account-1', 2)
    const worker = await working(store)
    await entered.passed
    // As far as the log can tell the worker has been silent for a minute.
    await clock.advance(60_000)
    const theirs: number[] = []
    const other = await process(({ version }) => theirs.push(version))
    await working(other)
    await caughtUp(other, projection)
    leave.open()
    await expect.poll(() => worker.active).toBe(0)
    await other.append('account-1', [Deposited({ amount: 3 })])
    await caughtUp(other, projection)
    expect([mine, theirs]).toEqual([
      [1, 2],
      [1, 2, 3],
    ])
  })

  test('one whose batch outlived its lease has written nothing', async () => {
    let isFirst = true
    const { store, projection, read, seen, clock } = await summed(async () => {
      if (isFirst) await clock.advance(60_000)
      isFirst = false
    })
    await deposits(store, 'account-1', 2)
    await working(store)
    await caughtUp(store, projection)
    expect(await read()).toEqual(['account-1: 3/2'])
    expect(seen).toHaveLength(4)
  })

  test('one that finds out between two renewals has its handler’s signal aborted', async () => {
    const entered = gate()
    const aborted = gate<unknown>()
    const { store, log, projection } = await summed(
      (_, { signal }) =>
        new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            aborted.open(signal.reason)
            resolve()
          })
          entered.open()
        }),
      { transactional: false },
    )
    await deposits(store, 'account-1', 1)
    const worker = await working(store, { lease: '150ms' })
    await entered.passed
    await log.forget(projection.name)
    expect(await aborted.passed).toMatchObject({ code: 'LEASE_LOST' })
    await expect.poll(() => worker.active).toBe(0)
  })

  test('write down how far they are before a batch takes too long for its lease', async () => {
    const { store, projection, log, seen } = await summed(
      async () => {
        const [record] = await log.projections()
        positions.push(record?.checkpoints[0]?.position ?? -1)
        await sleep(25)
      },
      { transactional: false },
    )
    const positions: number[] = []
    await deposits(store, 'account-1', 6)
    await working(store, { lease: '120ms' })
    await caughtUp(store, projection)
    expect(seen).toEqual([1, 2, 3, 4, 5, 6].map((version) => `account-1@${version}`))
    expect(positions.at(-1)).toBeGreaterThanOrEqual(2)
  })

  test('renew the lease of a batch that takes long', async () => {
    const { store, projection, process, read, clock } = await summed(() => sleep(30), {
      transactional: false,
    })
    await deposits(store, 'account-1', 10)
    await working(store, { lease: '120ms', batch: 100 })
    const intruder = await process(() => {
      throw new Error('two at the same time')
    })
    await working(intruder)
    const ticking = setInterval(() => void clock.advance(20), 20)
    await caughtUp(store, projection).finally(() => clearInterval(ticking))
    expect(await read()).toEqual([])
  })
})

describe('a worker that stops', () => {
  test('lets its handler end, and gives back its parts', async () => {
    const entered = gate()
    const leave = gate()
    const { store, projection, read } = await summed(async () => {
      entered.open()
      await leave.passed
    })
    await deposits(store, 'account-1', 1)
    const worker = await working(store)
    await entered.passed
    const stopping = worker.stop()
    leave.open()
    await stopping
    await worker.stopped
    expect(await read()).toEqual(['account-1: 1/1'])
    expect((await store.stats()).projections[0]?.parts).toEqual([{ position: 1, worker: undefined }])
    expect(await codeOf(worker.start())).toBe('CLOSED')
    expect(projection.name).toBeDefined()
  })

  test('undoes what is left after its grace', async () => {
    const entered = gate()
    const { store, projection, process, read } = await summed(async (_, { signal }) => {
      entered.open()
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    await deposits(store, 'account-1', 1)
    const worker = await working(store)
    await entered.passed
    await worker.stop({ grace: 10 })
    expect(await read()).toEqual([])
    const other = await process(() => {})
    await other.catchUp(projection.name)
    expect(await read()).toEqual(['account-1: 1/1'])
  })

  test('with its store, and one that was never started', async () => {
    const { store } = await summed()
    const worker = await working(store)
    const idle = store.worker()
    await store.close()
    await Promise.all([worker.stopped, idle.stopped])
    expect(worker.active).toBe(0)
  })

  test('refuses options that are none', async () => {
    const { store } = await summed()
    expect(() => store.worker({ lease: 5 })).toThrow('at least 100 ms')
    expect(() => store.worker({ leases: 5 } as never)).toThrow("did you mean 'lease'?")
    expect(() => store.worker({ batch: 0 })).toThrow('batch')
  })
})

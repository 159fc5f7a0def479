import { defineBatchJob, defineJob } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test, vi } from 'vitest'
import { numbers, quietly, recorder } from './batches.js'
import { signal, storeOf, testMill } from './mill.js'

describe('a worker with batches', () => {
  test('gives open batches back at once when it stops, and running ones at the end of the grace', async () => {
    const reasons: unknown[] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 3, wait: '1h' },
      timeout: 0,
      run: (_: number[], { signal }) =>
        new Promise<void>(() => signal.addEventListener('abort', () => reasons.push(signal.reason.code))),
    })
    const mill = testMill({ jobs: [work] })
    const jobs = await mill.enqueueMany(work, numbers(5))
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(10)
    expect((await mill.stats()).states.running).toBe(5)
    const stopped = worker.stop({ grace: '10s' })
    await mill.clock.advance(10)
    expect((await mill.stats()).states).toMatchObject({ running: 3, pending: 2 })
    await mill.clock.advance(10_000)
    await stopped
    expect(reasons).toEqual(['SHUTDOWN'])
    expect((await mill.stats()).states).toMatchObject({ running: 0, pending: 5 })
    expect(await Promise.all(jobs.map(async (job) => (await job.get())?.attempt))).toEqual([0, 0, 0, 0, 0])
  })

  test('that is lost in the middle of a batch gives all of its jobs back, once', async () => {
    const started = signal<AbortSignal>()
    const finish = signal()
    const calls: number[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 10 },
      timeout: 0,
      run: async (inputs: number[], { signal }) => {
        calls.push(inputs)
        if (calls.length > 1) return inputs.map((n) => `second ${n}`)
        started.give(signal)
        await finish.promise
        return inputs.map((n) => `first ${n}`)
      },
    })
    const mill = testMill({ jobs: [work] })
    const store = storeOf(mill)
    const jobs = await mill.enqueueMany(work, numbers(10))
    const lost: string[] = []
    mill.on('lost', ({ id }) => lost.push(id))
    mill.on('error', () => {})
    const first = mill.worker({ ...quietly, name: 'first', abandonAfter: '1h' })
    await first.start()
    const signalOfFirst = await started.promise
    // The first can reach the store no more; what it sweeps stands for the sweeps of others.
    let cutOff = true
    const { extend, exchange } = store
    const refuse = (worker: string) => cutOff && worker === first.id
    const noRoute = () => Promise.reject(new Error('no route'))
    vi.spyOn(store, 'extend').mockImplementation((request) =>
      refuse(request.worker) ? noRoute() : extend.call(store, request),
    )
    vi.spyOn(store, 'exchange').mockImplementation((request) =>
      refuse(request.worker) && !request.rescue ? noRoute() : exchange.call(store, request),
    )
    await mill.clock.advance(35_000)
    expect(signalOfFirst.aborted).toBe(true)
    expect((await mill.stats()).totals.crashed).toBe(10)
    await mill.drain()
    cutOff = false
    finish.give()
    await mill.clock.advance(10_000)
    await first.stop()
    expect(calls).toEqual([numbers(10), numbers(10)])
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual(numbers(10).map((n) => `second ${n}`))
    expect(lost.sort()).toEqual(jobs.map((job) => job.id).sort())
    expect((await mill.stats()).totals).toMatchObject({ completed: 10, crashed: 10, dead: 0 })
  })

  test('runs jobs on their last life one by one', async () => {
    const calls: number[][] = []
    const work = defineBatchJob({
      name: 'work',
      maxCrashes: 2,
      run: (inputs: number[]) => {
        calls.push(inputs)
        return inputs.map((n) => (n === 1 ? new Error('no') : n))
      },
    })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2, 3])
    await storeOf(mill).exchange({
      worker: 'ghost',
      settlements: [],
      claim: {
        token: 'ghost',
        lease: 30_000,
        room: { shared: 100, own: [0, 0, 0, 0] },
        picks: [{ queue: 'default', lane: 2, take: 100 }],
        turn: 0,
      },
    })
    const sweeper = mill.worker({ ...quietly, queues: ['elsewhere'] })
    await sweeper.start()
    await mill.clock.advance(32_000)
    await sweeper.stop()
    await mill.enqueueMany(work, [4, 5])
    await mill.drain()
    expect(calls.map((call) => call.join()).sort()).toEqual(['1', '2', '3', '4,5'])
    expect((await mill.stats()).states).toMatchObject({ completed: 4, retrying: 1 })
  })

  test('holds no more than a batch ahead while its slots are busy', async () => {
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 10 },
      run: (_: number[]) => new Promise<void>(() => {}),
    })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, numbers(1_000))
    const worker = mill.worker({ ...quietly, concurrency: 2 })
    await worker.start()
    await mill.clock.advance(5_000)
    expect(worker.active).toBe(20)
    expect((await mill.stats()).states.running).toBeLessThanOrEqual(30)
    await worker.stop({ grace: 0 })
  })

  test('runs them beside other jobs, and neither waits for the other', async () => {
    const { run, sizes } = recorder()
    const work = defineBatchJob({ name: 'work', batch: { size: 50, wait: '20ms' }, run })
    let running = 0
    let most = 0
    const order: number[] = []
    const single = defineJob({
      name: 'single',
      run: async (n: number) => {
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 1))
        order.push(n)
        running--
      },
    })
    const mill = testMill({ jobs: [work, single], worker: { concurrency: 5 } })
    for (let i = 0; i < 10; i++) {
      await mill.enqueueMany(work, numbers(50))
      await mill.enqueueMany(
        single,
        numbers(20).map((n) => i * 20 + n),
      )
    }
    await mill.drain()
    expect((await mill.stats()).totals.completed).toBe(700)
    expect(most).toBeLessThanOrEqual(5)
    expect(order).toHaveLength(200)
    expect(sizes().filter((size) => size === 50).length).toBeGreaterThanOrEqual(8)
  })

  test('keeps the slots that lanes have reserved', async () => {
    const end = signal()
    const { calls, run } = recorder()
    const work = defineBatchJob({ name: 'work', run })
    const single = defineJob({ name: 'single', run: () => end.promise })
    const urgent = defineJob({ name: 'urgent', priority: 'critical', run: () => 'done' })
    const mill = testMill({ jobs: [work, single, urgent] })
    const worker = mill.worker({ ...quietly, concurrency: 2, lanes: { reserved: { critical: 1 } } })
    await worker.start()
    await mill.enqueue(work, 1)
    await mill.clock.advance(20)
    await mill.enqueue(single, null)
    await mill.clock.advance(100)
    const job = await mill.enqueue(urgent, null)
    await mill.clock.advance(10)
    expect(await job.state()).toBe('completed')
    expect(calls).toEqual([])
    end.give()
    await mill.clock.advance(0)
    expect(calls).toEqual([[1]])
    await worker.stop()
  })

  test('heeds limits, keys and groups, which count jobs', async () => {
    const starts: { at: number; inputs: string[] }[] = []
    let most = 0
    const call = defineBatchJob({
      name: 'call',
      batch: { size: 10, wait: 0 },
      limit: { concurrency: 4, rate: { max: 6, per: '1s' } },
      key: (host: string) => host,
      keyLimit: { concurrency: 2 },
      group: (host: string) => host,
      run: async (inputs: string[]) => {
        starts.push({ at: mill.clock.now(), inputs })
        most = Math.max(most, (await mill.stats()).states.running)
      },
    })
    const mill: TestMill = testMill({ jobs: [call] })
    await mill.enqueueMany(call, [...Array(10).fill('a'), ...Array(10).fill('b'), ...Array(10).fill('c')])
    await mill.drain({ later: true })
    expect((await mill.stats()).totals.completed).toBe(30)
    expect(most).toBeLessThanOrEqual(4)
    for (const { at, inputs } of starts) {
      expect(inputs.length).toBeLessThanOrEqual(4)
      expect(inputs.filter((host) => host === inputs[0]).length).toBeLessThanOrEqual(2)
      const inWindow = starts.filter((other) => other.at >= at && other.at < at + 1000)
      expect(inWindow.flatMap((start) => start.inputs).length).toBeLessThanOrEqual(6)
    }
  })
})

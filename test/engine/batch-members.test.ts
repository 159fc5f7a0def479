import { type BatchContext, defineBatchJob, defineJob } from 'millrace'
import { describe, expect, test, vi } from 'vitest'
import { quietly } from './batches.js'
import { signal, storeOf, testMill } from './mill.js'

describe('each job of a batch', () => {
  test('has its own context, events and added jobs, and all are settled in one exchange', async () => {
    const next = defineJob({ name: 'next', queue: 'elsewhere', run: (_: string) => {} })
    const contexts: unknown[] = []
    const work = defineBatchJob({
      name: 'work',
      run: async (inputs: string[], { jobs, size }) => {
        for (const [i, job] of jobs.entries()) {
          const { attempt, tags, metadata } = job
          contexts.push({ attempt, tags, metadata, size })
          job.progress(`half of ${inputs[i]}`)
          job.log(`saw ${inputs[i]}`)
          await job.enqueue(next, inputs[i] as string)
        }
        return inputs.map((input) => (input === 'b' ? new Error('no') : input))
      },
    })
    const mill = testMill({ jobs: [work], worker: { queues: ['default'] } })
    const told: string[] = []
    mill.on('started', ({ id, attempt }) => told.push(`${id} started ${attempt}`))
    mill.on('completed', ({ id }) => told.push(`${id} completed`))
    mill.on('failed', ({ id, failure }) => told.push(`${id} failed: ${failure.message}`))
    const exchange = vi.spyOn(storeOf(mill), 'exchange')
    const a = await mill.enqueue(work, 'a', { id: 'a', tags: ['x'] })
    const b = await mill.enqueue(work, 'b', { id: 'b', metadata: { from: 'test' } })
    await mill.drain()
    expect(contexts).toEqual([
      { attempt: 1, tags: ['x'], metadata: undefined, size: 2 },
      { attempt: 1, tags: [], metadata: { from: 'test' }, size: 2 },
    ])
    expect(told).toEqual(['a started 1', 'b started 1', 'a completed', 'b failed: no'])
    expect((await a.get())?.progress).toBe('half of a')
    expect((await b.get())?.progress).toBe('half of b')
    expect(await a.logs()).toMatchObject([{ text: 'saw a' }])
    expect(await b.logs()).toMatchObject([{ text: 'saw b' }])
    expect((await mill.enqueued(next)).map(({ input }) => input)).toEqual(['a'])
    const settling = exchange.mock.calls.filter(([{ settlements }]) => settlements.length > 0)
    expect(settling).toHaveLength(1)
  })

  test('fails by its own policy when the time of the batch is over', async () => {
    const reasons: unknown[] = []
    const work = defineBatchJob({
      name: 'work',
      timeout: '2s',
      maxAttempts: 1,
      run: (_: number[], { signal }) =>
        new Promise<never>((_, reject) =>
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason.code)
            reject(signal.reason)
          }),
        ),
    })
    const mill = testMill({ jobs: [work] })
    const dead = await mill.enqueue(work, 1)
    const again = await mill.enqueue(work, 2, { maxAttempts: 2 })
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(2_000)
    expect(await dead.state()).toBe('running')
    await mill.clock.advance(100)
    expect(reasons).toEqual(['JOB_TIMEOUT'])
    expect(await dead.get()).toMatchObject({ state: 'dead', failure: { code: 'JOB_TIMEOUT' } })
    expect(await again.get()).toMatchObject({ state: 'retrying', failure: { code: 'JOB_TIMEOUT' } })
    await worker.stop()
  })

  test('is left behind with a handler that ignores its time, and the slot is free again', async () => {
    const end = signal()
    const calls: number[][] = []
    const deaf = defineBatchJob({
      name: 'deaf',
      batch: { size: 2 },
      timeout: '1s',
      maxAttempts: 1,
      run: async (inputs: number[]) => {
        calls.push(inputs)
        if (calls.length === 1) await end.promise
        return inputs
      },
    })
    const mill = testMill({ jobs: [deaf] })
    const abandoned: string[] = []
    mill.on('abandoned', ({ id }) => abandoned.push(id))
    const [a, b, c] = await mill.enqueueMany(deaf, [1, 2, 3])
    const worker = mill.worker({ ...quietly, concurrency: 1, abandonAfter: '3s' })
    await worker.start()
    await mill.clock.advance(3_900)
    expect(calls).toEqual([[1, 2]])
    await mill.clock.advance(200)
    expect(abandoned).toEqual([a?.id, b?.id])
    expect(calls).toEqual([[1, 2], [3]])
    end.give()
    await mill.clock.advance(10)
    expect(await a?.get()).toMatchObject({ state: 'dead', result: undefined })
    expect(await c?.result()).toBe(3)
    await worker.stop()
  })

  test('can be cancelled while the batch goes on', async () => {
    const started = signal<BatchContext>()
    const finish = signal()
    const work = defineBatchJob({
      name: 'work',
      run: async (inputs: number[], context) => {
        void context.signal
        started.give(context)
        await finish.promise
        return inputs
      },
    })
    const mill = testMill({ jobs: [work] })
    const [a, b, c] = await mill.enqueueMany(work, [1, 2, 3])
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(60)
    const { jobs, signal: all } = await started.promise
    expect(await b?.cancel('not needed')).toBe('asked')
    await mill.clock.advance(10)
    expect(jobs.map((job) => job.signal.aborted)).toEqual([false, true, false])
    expect(all.aborted).toBe(false)
    finish.give()
    await mill.clock.advance(0)
    expect(await b?.get()).toMatchObject({
      state: 'cancelled',
      cancelReason: 'not needed',
      result: undefined,
    })
    expect(await Promise.all([a?.result(), c?.result()])).toEqual([1, 3])
    await worker.stop()
  })

  test('is left behind when it was cancelled or its own time is over, and the batch goes on', async () => {
    const finish = signal()
    const reached: boolean[] = []
    const work = defineBatchJob({
      name: 'work',
      run: async (inputs: number[], { jobs, signal }) => {
        await finish.promise
        reached.push(...jobs.map((job) => job.signal.aborted), signal.aborted)
        return inputs
      },
    })
    const mill = testMill({ jobs: [work] })
    const patient = await mill.enqueue(work, 1)
    const hasty = await mill.enqueue(work, 2, { timeout: '1s', maxAttempts: 1 })
    const unwanted = await mill.enqueue(work, 3)
    const worker = mill.worker({ ...quietly, abandonAfter: '3s' })
    await worker.start()
    await mill.clock.advance(100)
    await unwanted.cancel()
    await mill.clock.advance(5_000)
    expect(await hasty.get()).toMatchObject({ state: 'dead', failure: { code: 'JOB_TIMEOUT' } })
    expect(await unwanted.state()).toBe('cancelled')
    expect(await patient.state()).toBe('running')
    expect(worker.active).toBe(1)
    finish.give()
    await mill.clock.advance(0)
    expect(await patient.result()).toBe(1)
    expect(reached).toEqual([false, true, true, false])
    expect((await mill.stats()).totals).toMatchObject({ completed: 1, dead: 1, cancelled: 1 })
    await worker.stop()
  })

  test('can be cancelled before the batch starts; when all are, a running batch is told to stop', async () => {
    const calls: number[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { wait: '1s' },
      run: (inputs: number[], { signal }) => {
        calls.push(inputs)
        return new Promise<never>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        )
      },
    })
    const mill = testMill({ jobs: [work] })
    const told: string[] = []
    mill.on('cancelled', ({ id }) => told.push(id))
    const [a, b, c] = await mill.enqueueMany(work, [1, 2, 3])
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(10)
    expect(await b?.cancel()).toBe('asked')
    await mill.clock.advance(10)
    expect(await b?.state()).toBe('cancelled')
    await mill.clock.advance(1_000)
    expect(calls).toEqual([[1, 3]])
    await a?.cancel()
    await c?.cancel()
    await mill.clock.advance(110)
    expect(await Promise.all([a?.state(), c?.state()])).toEqual(['cancelled', 'cancelled'])
    expect(told).toEqual([b?.id, a?.id, c?.id])
    await worker.stop()
  })
})

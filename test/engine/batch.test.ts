import fc from 'fast-check'
import {
  type BatchContext,
  type BatchOutcome,
  cancel,
  defineBatchJob,
  defineJob,
  limited,
  NonRetryableError,
  snooze,
} from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { realMill, signal, storeOf, testMill } from './mill.js'

const quietly = { handleSignals: false } as const

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

/** A handler that keeps what it was called with and returns the double of each. */
function recorder() {
  const calls: number[][] = []
  const run = (inputs: number[]): number[] => {
    calls.push([...inputs])
    return inputs.map((n) => n * 2)
  }
  return { calls, run, sizes: () => calls.map((call) => call.length) }
}

describe('a batch starts', () => {
  test.for([0, '50ms'])('with all the jobs it can take when there is a backlog, wait %s', async (wait) => {
    const sizes: number[] = []
    let running = 0
    let most = 0
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 100, wait },
      run: async (inputs: number[]) => {
        sizes.push(inputs.length)
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 2))
        running--
        return inputs.map((n) => n * 2)
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 10 } })
    const jobs = await mill.enqueueMany(work, numbers(10_000))
    await mill.drain()
    expect(sizes).toEqual(Array(100).fill(100))
    expect(most).toBeLessThanOrEqual(10)
    expect((await mill.stats()).totals.completed).toBe(10_000)
    expect(await Promise.all([0, 4_321, 9_999].map((i) => jobs[i]?.result()))).toEqual([0, 8_642, 19_998])
  })

  test('at once when it is full, else after its wait', async () => {
    const { calls, run, sizes } = recorder()
    const work = defineBatchJob({ name: 'work', batch: { size: 10, wait: '50ms' }, run })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, numbers(25))
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(49)
    expect(sizes()).toEqual([10, 10])
    expect(worker.active).toBe(0)
    expect(worker.idle).toBe(false)
    await mill.clock.advance(1)
    expect(sizes()).toEqual([10, 10, 5])
    expect(calls.flat()).toEqual(numbers(25))
    expect(worker.idle).toBe(true)
    await worker.stop()
  })

  test('and takes what is enqueued while it waits, even when no slot is free', async () => {
    const { calls, run } = recorder()
    const end = signal()
    const slow = defineJob({ name: 'slow', run: () => end.promise })
    const work = defineBatchJob({ name: 'work', batch: { size: 5, wait: '1s' }, run })
    const mill = testMill({ jobs: [slow, work] })
    const worker = mill.worker({ ...quietly, concurrency: 1 })
    await worker.start()
    await mill.enqueue(work, 1)
    await mill.clock.advance(100)
    await mill.enqueue(slow, null)
    await mill.clock.advance(100)
    expect(worker.active).toBe(1)
    await mill.enqueue(work, 2)
    await mill.clock.advance(900)
    await mill.enqueue(work, 3)
    await mill.clock.advance(100)
    expect(calls).toEqual([])
    end.give()
    await mill.clock.advance(0)
    expect(calls).toEqual([[1, 2, 3]])
    await worker.stop()
  })

  test('at once with wait 0, with what the queue has', async () => {
    const { calls, run } = recorder()
    const work = defineBatchJob({ name: 'work', batch: { size: 100, wait: 0 }, run })
    const mill = testMill({ jobs: [work] })
    const worker = mill.worker({ ...quietly, concurrency: 2 })
    await worker.start()
    await mill.enqueue(work, 1)
    await mill.clock.advance(0)
    await mill.enqueueMany(work, [2, 3, 4, 5])
    await mill.clock.advance(0)
    expect(calls).toEqual([[1], [2, 3, 4, 5]])
    await worker.stop()
  })

  test('of jobs with the same key only', async () => {
    const calls: string[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 3, by: (input: { table?: string; row: number }) => input.table },
      run: (inputs) => void calls.push(inputs.map(({ table, row }) => `${table ?? '-'}${row}`)),
    })
    const mill = testMill({ jobs: [work] })
    const tables = ['a', 'b', undefined]
    await mill.enqueueMany(
      work,
      numbers(12).map((row) => ({ ...(tables[row % 3] && { table: tables[row % 3] as string }), row })),
    )
    await mill.drain()
    const expected = [['a0', 'a3', 'a6'], ['b1', 'b4', 'b7'], ['-2', '-5', '-8'], ['a9'], ['b10'], ['-11']]
    expect(calls.sort()).toEqual(expected.sort())
  })

  test('by itself for a job whose key cannot be told', async () => {
    const calls: (string | null)[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { by: (input: string | null) => (input as string).toUpperCase() },
      run: (inputs) => void calls.push(inputs),
    })
    const mill = testMill({ jobs: [work] })
    const errors: string[] = []
    mill.on('error', ({ during }) => errors.push(during))
    await mill.enqueueMany(work, ['a', null, 'A', 'a'])
    await mill.drain()
    expect(calls).toEqual([[null], ['a', 'A', 'a']])
    expect(errors).toEqual(["batch.by of job 'work'"])
  })

  test('of one lane, so that urgent jobs do not wait for others', async () => {
    const calls: string[][] = []
    const work = defineBatchJob({ name: 'work', run: (inputs: string[]) => void calls.push(inputs) })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, ['c', 'd'])
    await mill.enqueueMany(work, ['a', 'b'], { priority: 'critical' })
    await mill.drain()
    expect(calls).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ])
  })
})

describe('the outcome of each job', () => {
  test('partial failure retries only the failed', async () => {
    const calls: string[][] = []
    const insert = defineBatchJob({
      name: 'insert',
      batch: { size: 10, wait: 0 },
      maxAttempts: 3,
      backoff: { type: 'fixed', initialDelay: '10s', jitter: 'none' },
      run: (rows: string[], { jobs }): BatchOutcome<string>[] => {
        calls.push(rows)
        return rows.map((row, i) => {
          if (row === 'bad') return new NonRetryableError('no such column')
          if (row === 'locked' && jobs[i]?.attempt === 1) return new Error('locked')
          return `stored ${row}`
        })
      },
    })
    const mill = testMill({ jobs: [insert] })
    const [a, bad, locked, b] = await mill.enqueueMany(insert, ['a', 'bad', 'locked', 'b'])
    await mill.drain()
    expect(await a?.result()).toBe('stored a')
    expect(await b?.result()).toBe('stored b')
    expect(await bad?.get()).toMatchObject({
      state: 'dead',
      attempt: 1,
      failure: { message: 'no such column' },
    })
    expect(await locked?.get()).toMatchObject({
      state: 'retrying',
      attempt: 1,
      failure: { message: 'locked' },
    })
    await mill.drain({ later: true })
    expect(await locked?.result()).toBe('stored locked')
    expect(calls).toEqual([['a', 'bad', 'locked', 'b'], ['locked']])
    expect((await mill.stats()).totals).toMatchObject({ completed: 3, failed: 2, retried: 1, dead: 1 })
  })

  test('what the handler throws fails all, each by its own policy', async () => {
    const work = defineBatchJob({
      name: 'work',
      maxAttempts: 2,
      retryable: (error) => !(error instanceof TypeError),
      run: async (_: number[]) => {
        throw new Error('the database is down')
      },
    })
    const mill = testMill({ jobs: [work] })
    const two = await mill.enqueue(work, 1)
    const one = await mill.enqueue(work, 2, { maxAttempts: 1 })
    const slow = await mill.enqueue(work, 3, {
      backoff: { type: 'fixed', initialDelay: '5m', jitter: 'none' },
    })
    const before = mill.clock.now()
    await mill.drain()
    expect(await two.get()).toMatchObject({ state: 'retrying', failure: { message: 'the database is down' } })
    expect(await one.state()).toBe('dead')
    expect(Number((await slow.get())?.dueAt) - before).toBe(300_050)
  })

  test('directives put off, cancel and hold single jobs', async () => {
    let refusals = 1
    const calls: string[][] = []
    const call = defineBatchJob({
      name: 'call',
      maxAttempts: 1,
      key: (host: string) => host.slice(0, 1),
      run: (hosts: string[]) => {
        calls.push(hosts)
        return hosts.map((host) => {
          if (host === 'later' && calls.length === 1) return snooze('1h')
          if (host === 'gone') return cancel('no such host')
          if (host.startsWith('busy') && refusals-- > 0) return limited('30s')
          return host.length
        })
      },
    })
    const mill = testMill({ jobs: [call], worker: { concurrency: 1 } })
    const held: unknown[] = []
    mill.on('limited', ({ key, delay }) => held.push([key, delay]))
    const [later, gone, busy, free] = await mill.enqueueMany(call, ['later', 'gone', 'busy', 'free'])
    await mill.drain()
    expect(await later?.get()).toMatchObject({ state: 'scheduled', attempt: 0 })
    expect(await gone?.get()).toMatchObject({ state: 'cancelled', cancelReason: 'no such host' })
    expect(await busy?.get()).toMatchObject({ state: 'pending', attempt: 0 })
    expect(await free?.result()).toBe(4)
    expect(held).toEqual([['b', 30_000]])
    const more = await mill.enqueueMany(call, ['busy2', 'free2'])
    await mill.drain()
    expect(await Promise.all(more.map((job) => job.state()))).toEqual(['pending', 'completed'])
    await mill.drain({ later: true })
    expect(calls).toEqual([['later', 'gone', 'busy', 'free'], ['free2'], ['busy', 'busy2'], ['later']])
  })

  test.for(['returned', 'thrown'])('a directive that is %s is for all', async (how) => {
    const work = defineBatchJob({
      name: 'work',
      run: (_: number[]) => {
        const later = snooze('1h')
        if (how === 'thrown') throw later
        return later
      },
    })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2, 3])
    await mill.drain()
    expect((await mill.stats()).states).toMatchObject({ scheduled: 3, pending: 0 })
  })

  test('nothing returned completes all without result', async () => {
    const work = defineBatchJob({ name: 'work', run: async (_: number[]) => {} })
    const mill = testMill({ jobs: [work] })
    const jobs = await mill.enqueueMany(work, [1, 2, 3])
    await mill.drain()
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([undefined, undefined, undefined])
  })

  test('outcomes that do not fit the inputs fail all', async () => {
    const returned: unknown[] = [[1, 2], { ok: true }]
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 3 },
      maxAttempts: 1,
      run: (_: number[]) => returned.shift() as number[],
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 1 } })
    const jobs = await mill.enqueueMany(work, numbers(6))
    await mill.drain()
    const failures = await Promise.all(jobs.map(async (job) => (await job.get())?.failure))
    expect(failures.map((failure) => failure?.code)).toEqual(Array(6).fill('INVALID_OUTCOME'))
    expect(failures[0]?.message).toMatch(/'work' returned 2 outcomes for 3 inputs; expected an array/)
    expect(failures[3]?.message).toMatch(/returned an object for 3 inputs/)
  })

  test('an input that is refused or cannot be read fails by itself', async () => {
    const calls: { n: number }[][] = []
    const work = defineBatchJob({
      name: 'work',
      input: z.object({ n: z.number(), unit: z.string().default('kg') }),
      run: (inputs) => {
        calls.push(inputs)
        return inputs.map(({ n, unit }) => `${n} ${unit}`)
      },
    })
    // An earlier version of it, which checked nothing.
    const loose = defineJob({ name: 'work', run: (_: unknown) => {} })
    const mill = testMill({ jobs: [work] })
    const good = await mill.enqueue(work, { n: 1 })
    const refused = await mill.enqueue(loose, { n: 'one' })
    await mill.enqueue(work, { n: 2 })
    const store = storeOf(mill)
    const exchange = store.exchange.bind(store)
    vi.spyOn(store, 'exchange').mockImplementation(async (request) => {
      const result = await exchange(request)
      const claimed = result.claimed.map((job) => (job.id === 'torn' ? { ...job, input: '{"n":' } : job))
      return { ...result, claimed }
    })
    const torn = await mill.enqueue(work, { n: 3 }, { id: 'torn' })
    await mill.drain()
    expect(calls).toEqual([
      [
        { n: 1, unit: 'kg' },
        { n: 2, unit: 'kg' },
      ],
    ])
    expect(await good.result()).toBe('1 kg')
    expect(await refused.get()).toMatchObject({ state: 'dead', failure: { code: 'INVALID_INPUT' } })
    expect(await torn.get()).toMatchObject({ state: 'dead', failure: { code: 'STORE_CORRUPT' } })
  })

  test('a result that cannot be stored fails its job alone', async () => {
    const work = defineBatchJob({
      name: 'work',
      run: (inputs: number[]) => inputs.map((n) => (n === 2 ? () => n : n)),
    })
    const mill = testMill({ jobs: [work] })
    const jobs = await mill.enqueueMany(work, [1, 2, 3])
    await mill.drain()
    expect(await Promise.all(jobs.map((job) => job.state()))).toEqual(['completed', 'dead', 'completed'])
  })
})

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

describe('in virtual time', () => {
  test('drain lets a batch wait, and advance goes no further than told', async () => {
    const at: number[] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { wait: '1m' },
      run: (_: number[]) => void at.push(mill.clock.now() - start),
    })
    const mill: TestMill = testMill({ jobs: [work] })
    const start = mill.clock.now()
    await mill.enqueueMany(work, [1, 2])
    await mill.advance('30s')
    expect(at).toEqual([])
    expect(mill.clock.now() - start).toBe(30_000)
    expect((await mill.stats()).states.pending).toBe(2)
    await mill.advance('2m')
    expect(at).toEqual([90_000])
    expect(mill.clock.now() - start).toBe(150_000)
    await mill.enqueue(work, 3, { delay: '1h' })
    await mill.enqueue(work, 4)
    await mill.drain()
    expect(at).toEqual([90_000, 210_000])
    await mill.drain({ later: true })
    expect(at[2]).toBe(150_000 + 3_600_000 + 60_000)
  })

  test('inline mode runs a batch of what was enqueued', async () => {
    const { calls, run } = recorder()
    const work = defineBatchJob({ name: 'work', run })
    const mill = testMill({ jobs: [work], inline: true })
    expect(await (await mill.enqueue(work, 1)).result()).toBe(2)
    await mill.enqueueMany(work, [2, 3])
    expect(calls).toEqual([[1], [2, 3]])
  })
})

test('in real time, two workers share a backlog in full batches, and failures come again', async () => {
  const sizes: number[] = []
  const seen = new Map<number, number>()
  const work = defineBatchJob({
    name: 'work',
    batch: { size: 50, wait: '50ms' },
    backoff: { type: 'fixed', initialDelay: 5 },
    run: async (inputs: number[], { jobs }) => {
      sizes.push(inputs.length)
      await new Promise((resolve) => setTimeout(resolve, 1))
      return inputs.map((n, i) => {
        seen.set(n, (seen.get(n) ?? 0) + 1)
        return n % 7 === 0 && jobs[i]?.attempt === 1 ? new Error('first time') : n
      })
    },
  })
  const mill = realMill({ jobs: [work] })
  const jobs = await mill.enqueueMany(work, numbers(4_000))
  for (const concurrency of [2, 3]) await mill.worker({ ...quietly, concurrency }).start()
  await mill.queue('default').drain({ later: true, timeout: '25s' })
  expect((await mill.stats()).totals).toMatchObject({ completed: 4_000, retried: 572, dead: 0 })
  expect(await jobs[77]?.result()).toBe(77)
  expect([...seen].filter(([n, times]) => times !== (n % 7 === 0 ? 2 : 1))).toEqual([])
  expect(sizes.filter((size) => size === 50).length).toBeGreaterThan(40)
})

type Act = 'ok' | 'fail' | 'die' | 'snooze' | 'cancel' | 'hold' | 'bomb'

test('every job of random batches ends exactly once, with its own outcome', async () => {
  const act = fc.oneof(
    { weight: 6, arbitrary: fc.constant<Act>('ok') },
    { weight: 5, arbitrary: fc.constantFrom<Act>('fail', 'die', 'snooze', 'cancel', 'hold', 'bomb') },
  )
  const plans = fc.array(
    fc.record({ key: fc.integer({ min: 0, max: 3 }), acts: fc.array(act, { maxLength: 4 }) }),
    {
      minLength: 1,
      maxLength: 40,
    },
  )
  const settings = fc.record({
    size: fc.integer({ min: 1, max: 12 }),
    wait: fc.constantFrom(0, 1, 50),
    keyed: fc.boolean(),
    concurrency: fc.integer({ min: 1, max: 4 }),
    prefetch: fc.constantFrom<(0 | 3 | 'auto')[]>(0, 3, 'auto'),
  })
  await fc.assert(fc.asyncProperty(plans, settings, playOut), { numRuns: 25 })
}, 60_000)

async function playOut(
  plans: readonly { readonly key: number; readonly acts: readonly Act[] }[],
  {
    size,
    wait,
    keyed,
    concurrency,
    prefetch,
  }: {
    size: number
    wait: number
    keyed: boolean
    concurrency: number
    prefetch: 0 | 3 | 'auto'
  },
): Promise<void> {
  const told = plans.map((): Act[] => [])
  const tell = (n: number): BatchOutcome<string> => {
    const next = plans[n]?.acts[(told[n] as Act[]).length] ?? 'ok'
    told[n]?.push(next)
    if (next === 'fail') return new Error(`fail ${n}`)
    if (next === 'die') return new NonRetryableError(`die ${n}`)
    if (next === 'snooze') return snooze('10s')
    if (next === 'cancel') return cancel(`cancel ${n}`)
    if (next === 'hold') return limited('5s')
    return `ok ${n}`
  }
  const work = defineBatchJob({
    name: 'work',
    maxAttempts: 3,
    batch: { size, wait, ...(keyed && { by: ({ key }: { key: number; n: number }) => key }) },
    run: async (inputs: { key: number; n: number }[]) => {
      expect(inputs.length).toBeLessThanOrEqual(size)
      if (keyed) expect(new Set(inputs.map(({ key }) => key)).size).toBe(1)
      const bomb = inputs.find(({ n }) => plans[n]?.acts[(told[n] as Act[]).length] === 'bomb')
      if (bomb === undefined) return inputs.map(({ n }) => tell(n))
      for (const { n } of inputs) told[n]?.push('bomb')
      throw new Error('bomb')
    },
  })
  const mill = testMill({ jobs: [work], worker: { concurrency, prefetch } })
  const ends = new Map<string, string[]>()
  for (const end of ['completed', 'dead', 'cancelled'] as const)
    mill.on(end, ({ id }) => ends.set(id, [...(ends.get(id) ?? []), end]))
  const jobs = await mill.enqueueMany(
    work,
    plans.map(({ key }, n) => ({ key, n })),
  )
  await mill.drain({ later: true })
  for (const [n, job] of jobs.entries()) {
    const acts = told[n] as Act[]
    const failures = acts.filter((one) => one === 'fail' || one === 'bomb').length
    const last = acts.at(-1) as Act
    const found = await job.get()
    if (last === 'ok') expect(found).toMatchObject({ state: 'completed', result: `ok ${n}` })
    else if (last === 'die') expect(found).toMatchObject({ state: 'dead', failure: { message: `die ${n}` } })
    else if (last === 'cancel')
      expect(found).toMatchObject({ state: 'cancelled', cancelReason: `cancel ${n}` })
    else {
      expect(failures).toBe(3)
      expect(found).toMatchObject({
        state: 'dead',
        failure: { message: last === 'bomb' ? 'bomb' : `fail ${n}` },
      })
    }
    expect(acts.slice(0, -1).filter((one) => ['ok', 'die', 'cancel'].includes(one))).toEqual([])
    expect(failures).toBeLessThanOrEqual(3)
    expect(ends.get(job.id)).toEqual([found?.state])
  }
}

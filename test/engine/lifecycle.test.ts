import { cancel, defineJob, isMillraceError, NonRetryableError, RetryAfter, snooze } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

describe('the life of a job', () => {
  test('completes, with its result', async () => {
    const double = defineJob({ name: 'double', run: (n: number) => n * 2 })
    const mill = testMill({ jobs: [double] })
    const job = await mill.enqueue(double, 21)
    expect(await job.state()).toBe('pending')
    await mill.drain()
    expect(await job.state()).toBe('completed')
    expect(await job.result()).toBe(42)
    expect((await job.get())?.attempt).toBe(1)
  })

  test('an id given by the caller makes the enqueue idempotent', async () => {
    const once = defineJob({ name: 'once', run: (n: number) => n })
    const mill = testMill({ jobs: [once] })
    const first = await mill.enqueue(once, 1, { id: 'order:7' })
    const [second, third] = await Promise.all([
      mill.enqueue(once, 2, { id: 'order:7' }),
      mill.enqueue(once, 3, { id: 'order:7' }),
    ])
    expect([first.duplicate, second.duplicate, third.duplicate]).toEqual([false, true, true])
    await mill.drain()
    expect(await third.result()).toBe(1)
    expect((await mill.stats()).totals.enqueued).toBe(1)
  })

  test('a failure is retried after its backoff and dies when attempts are exhausted', async () => {
    const seen: number[] = []
    const flaky = defineJob({
      name: 'flaky',
      maxAttempts: 3,
      backoff: { type: 'exponential', initialDelay: '10s', factor: 3, jitter: 'none' },
      run: (_: null, { attempt }) => {
        seen.push(attempt)
        throw new Error('no luck')
      },
    })
    const mill = testMill({ jobs: [flaky] })
    const job = await mill.enqueue(flaky, null)
    await mill.drain()
    expect(await job.state()).toBe('retrying')
    await mill.advance(9_999)
    expect(seen).toEqual([1])
    await mill.advance(1)
    expect(seen).toEqual([1, 2])
    await mill.advance(29_999)
    expect(seen).toEqual([1, 2])
    await mill.advance(1)
    expect(seen).toEqual([1, 2, 3])
    expect(await job.state()).toBe('dead')
    await expect(job.result()).rejects.toMatchObject({ code: 'JOB_DEAD' })
    const attempts = await job.attempts()
    expect(attempts.map(({ to, failure }) => [to, failure?.message])).toEqual([
      ['retrying', 'no luck'],
      ['retrying', 'no luck'],
      ['dead', 'no luck'],
    ])
  })

  test('an error that cannot be helped kills at once', async () => {
    const refuse = defineJob({
      name: 'refuse',
      run: () => {
        throw new NonRetryableError('card declined')
      },
    })
    const classify = defineJob({
      name: 'classify',
      retryable: (error) => (error as Error).message !== 'permanent',
      run: (message: string) => {
        throw new Error(message)
      },
    })
    const mill = testMill({ jobs: [refuse, classify] })
    const jobs = [
      await mill.enqueue(refuse, {}),
      await mill.enqueue(classify, 'permanent'),
      await mill.enqueue(classify, 'passing'),
    ]
    await mill.drain()
    expect(await Promise.all(jobs.map((job) => job.state()))).toEqual(['dead', 'dead', 'retrying'])
  })

  test('Retry-After wins over the backoff and spends an attempt', async () => {
    const limited = defineJob({
      name: 'limited',
      maxAttempts: 2,
      backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' },
      run: () => {
        throw new RetryAfter('90s')
      },
    })
    const mill = testMill({ jobs: [limited] })
    const job = await mill.enqueue(limited, {})
    await mill.drain()
    expect((await job.get())?.dueAt?.getTime()).toBe(mill.clock.now() + 90_000)
    await mill.advance('90s')
    expect(await job.state()).toBe('dead')
  })

  test('snooze spends no attempt, cancel ends the job', async () => {
    let naps = 0
    const sleepy = defineJob({
      name: 'sleepy',
      maxAttempts: 1,
      run: () => (++naps < 4 ? snooze('1h') : 'awake'),
    })
    const moot = defineJob({ name: 'moot', run: () => cancel('the order is gone') })
    const mill = testMill({ jobs: [sleepy, moot] })
    const job = await mill.enqueue(sleepy, {})
    const gone = await mill.enqueue(moot, {})
    await mill.drain()
    expect(await job.state()).toBe('scheduled')
    expect(await gone.get()).toMatchObject({ state: 'cancelled', cancelReason: 'the order is gone' })
    await mill.drain({ later: true })
    expect(await job.get()).toMatchObject({ state: 'completed', attempt: 1, result: 'awake' })
    expect(naps).toBe(4)
  })

  test('starts no earlier than due, however far away', async () => {
    const starts: number[] = []
    const mark = defineJob({ name: 'mark', run: () => void starts.push(mill.clock.now()) })
    const mill = testMill({ jobs: [mark] })
    const start = mill.clock.now()
    await mill.enqueue(mark, {}, { delay: '40d' })
    await mill.enqueue(mark, {}, { runAt: new Date(start + 400 * 86_400_000) })
    await mill.enqueue(mark, {}, { runAt: new Date(start - 1000) })
    await mill.drain()
    expect(starts).toEqual([start])
    await mill.drain({ later: true })
    expect(starts).toEqual([start, start + 40 * 86_400_000, start + 400 * 86_400_000])
  })

  test('jobs that a handler adds exist only when it completes', async () => {
    const child = defineJob({ name: 'child', run: (n: number) => n })
    let tries = 0
    const parent = defineJob({
      name: 'parent',
      backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' },
      run: async (_: null, { enqueue }) => {
        await enqueue(child, ++tries)
        if (tries === 1) throw new Error('after the enqueue')
        return tries
      },
    })
    const mill = testMill({ jobs: [parent, child] })
    await mill.enqueue(parent, null)
    await mill.drain()
    // The first attempt failed, and what it added went with it.
    await mill.assertEnqueued(child, undefined, 0)
    await mill.drain({ later: true })
    expect((await mill.enqueued(child)).map((job) => job.result)).toEqual([2])
  })

  test('a job can carry its own policy', async () => {
    const strict = defineJob({
      name: 'strict',
      maxAttempts: 1,
      run: () => {
        throw new Error('again')
      },
    })
    const mill = testMill({ jobs: [strict] })
    const backoff = { type: 'linear', initialDelay: '2s', jitter: 'none' } as const
    const job = await mill.enqueue(strict, {}, { maxAttempts: 3, backoff, retain: { dead: '1m' } })
    await mill.drain()
    expect((await job.get())?.dueAt?.getTime()).toBe(mill.clock.now() + 2_000)
    await mill.drain({ later: true })
    expect(await job.get()).toMatchObject({ state: 'dead', attempt: 3 })
    await mill.advance('2m')
    expect(await job.get()).toBeUndefined()
  })

  test('retention removes by age, and retain 0 keeps nothing', async () => {
    const kept = defineJob({ name: 'kept', retain: '1h', run: () => 'x' })
    const dropped = defineJob({ name: 'dropped', retain: 0, run: () => 'x' })
    const mill = testMill({ jobs: [kept, dropped] })
    const [a, b] = [await mill.enqueue(kept, {}), await mill.enqueue(dropped, {})]
    await mill.drain()
    expect(await a.state()).toBe('completed')
    await expect(b.result()).rejects.toSatisfy((error) => isMillraceError(error, 'JOB_NOT_FOUND'))
    await mill.advance('59m')
    expect(await a.state()).toBe('completed')
    await mill.advance('2m')
    expect(await a.get()).toBeUndefined()
    expect((await mill.stats()).totals).toMatchObject({ completed: 2, pruned: 1 })
  })

  test('retention removes by count, oldest first', async () => {
    const tick = defineJob({ name: 'tick', run: (n: number) => n })
    const mill = testMill({ jobs: [tick], worker: { keep: { completed: 10 } } })
    const jobs = await mill.enqueueMany(
      tick,
      Array.from({ length: 25 }, (_, i) => i),
    )
    await mill.drain()
    await mill.advance('5s')
    const left = await Promise.all(jobs.map((job) => job.get()))
    expect(left.filter((job) => job !== undefined)).toHaveLength(10)
    expect((await mill.stats()).states.completed).toBe(10)
  })

  test('progress, logs, tags and metadata are kept with the job', async () => {
    const report = defineJob({
      name: 'report',
      run: (_: null, { progress, log, tags, metadata }) => {
        progress(50)
        log('half', 'warn')
        log('NUL \0 and a lone \uD800 surrogate')
        progress({ done: 2, of: 2n })
        return { tags: [...tags], metadata }
      },
    })
    const mill = testMill({ jobs: [report] })
    const job = await mill.enqueue(report, null, { tags: ['a', 'b:c'], metadata: { trace: 'x1' } })
    await mill.drain()
    expect(await job.result()).toEqual({ tags: ['a', 'b:c'], metadata: { trace: 'x1' } })
    expect((await job.get())?.progress).toEqual({ done: 2, of: 2n })
    expect((await job.logs()).map(({ level, text }) => [level, text])).toEqual([
      ['warn', 'half'],
      ['info', 'NUL \uFFFD and a lone \uFFFD surrogate'],
    ])
  })

  test('watch yields each change until the end', async () => {
    const steps = defineJob({
      name: 'steps',
      backoff: { type: 'fixed', initialDelay: '5s', jitter: 'none' },
      run: (_: null, { attempt }) => {
        if (attempt === 1) throw new Error('first')
        return 'second'
      },
    })
    const mill = testMill({ jobs: [steps] })
    const job = await mill.enqueue(steps, null)
    const changes = job.watch()[Symbol.asyncIterator]()
    // Before the worker starts, which may be sooner than the first look.
    expect((await changes.next()).value).toMatchObject({ state: 'pending', attempt: 0 })
    const states: string[] = []
    const watching = (async () => {
      for await (const { state, attempt } of { [Symbol.asyncIterator]: () => changes })
        states.push(`${state} ${attempt}`)
    })()
    await mill.drain({ later: true })
    await mill.clock.advance(2_000)
    await watching
    expect(states).toContain('retrying 1')
    expect(states.at(-1)).toBe('completed 2')
  })
})

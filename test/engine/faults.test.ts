/** What went wrong once, or could: each of these was a defect before it was a test. */

import { defineJob } from 'millrace'
import { describe, expect, test, vi } from 'vitest'
import { outcomeOf } from '../outcome.js'
import { realMill, signal, storeOf, testMill } from './mill.js'

const echo = defineJob({ name: 'echo', run: (n: number) => n })

describe('faults', () => {
  test('close waits for enqueues that are on their way', async () => {
    const mill = realMill({ jobs: [echo] })
    await mill.open()
    const adding = mill.enqueue(echo, 1)
    const closing = mill.close()
    await expect(adding).resolves.toMatchObject({ duplicate: false })
    await closing
  })

  test('a store that throws does not stop the worker for good', async () => {
    const mill = testMill({ jobs: [echo] })
    const store = storeOf(mill)
    const errors: string[] = []
    mill.on('error', ({ during }) => errors.push(during))
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const real = store.exchange.bind(store)
    store.exchange = () => Promise.reject(new Error('the disk is gone'))
    const job = await mill.enqueue(echo, 5)
    await mill.clock.advance(3_000)
    expect(errors).toContain('exchange')
    store.exchange = real
    await mill.clock.advance(10_000)
    expect(await job.result()).toBe(5)
    await worker.stop()
  })

  test('an exchange whose answer was lost is asked again, and nothing stays behind', async () => {
    const mill = testMill({ jobs: [echo] })
    const store = storeOf(mill)
    mill.on('error', () => {})
    const real = store.exchange.bind(store)
    let dropped = 0
    store.exchange = async (request) => {
      const result = await real(request)
      if (result.claimed.length > 0 && dropped++ < 3) throw new Error('the reply was lost')
      return result
    }
    const jobs = await mill.enqueueMany(echo, [1, 2, 3])
    const worker = mill.worker({ handleSignals: false, concurrency: 1 })
    await worker.start()
    await mill.clock.advance(20_000)
    expect(dropped).toBeGreaterThanOrEqual(3)
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([1, 2, 3])
    expect((await mill.stats()).totals.crashed).toBe(0)
    await worker.stop()
  })

  test('a cancel stands when the worker shuts down, and when the attempt fails', async () => {
    for (const ending of ['shutdown', 'failure'] as const) {
      const started = signal()
      const go = signal()
      const slow = defineJob({
        name: 'slow',
        timeout: 0,
        run: async () => {
          started.give()
          await go.promise
          throw new Error('failed before it heard of the cancel')
        },
      })
      const mill = testMill({ jobs: [slow] })
      const job = await mill.enqueue(slow, null)
      const worker = mill.worker({ handleSignals: false })
      await worker.start()
      await started.promise
      expect(await job.cancel('enough')).toBe('asked')
      if (ending === 'shutdown') await worker.stop({ grace: 0 })
      else go.give()
      await mill.clock.advance(100)
      expect(await job.get()).toMatchObject({ state: 'cancelled', cancelReason: 'enough' })
      await worker.stop({ grace: 0 })
    }
  })

  test('a clock that is set forward does not make a healthy worker lose its jobs', async () => {
    const go = signal()
    const slow = defineJob({ name: 'slow', timeout: 0, run: () => go.promise })
    const mill = testMill({ jobs: [slow] })
    const stalled: string[] = []
    mill.on('stalled', ({ id }) => stalled.push(id))
    const job = await mill.enqueue(slow, null)
    const workers = [
      mill.worker({ handleSignals: false }),
      mill.worker({ handleSignals: false, queues: ['other'] }),
    ]
    for (const worker of workers) await worker.start()
    await mill.clock.advance(5_000)
    for (let i = 0; i < 3; i++) {
      mill.clock.jump(60_000)
      await mill.clock.advance(5_000)
    }
    expect(stalled).toEqual([])
    expect(await job.state()).toBe('running')
    go.give()
    await mill.clock.advance(1_000)
    expect(await job.state()).toBe('completed')
    for (const worker of workers) await worker.stop()
  })

  test('a custom backoff that throws does not keep an abandoned job from ending', async () => {
    const deaf = defineJob({
      name: 'deaf',
      timeout: 100,
      backoff: {
        type: 'custom',
        delay: () => {
          throw new Error('no idea')
        },
      },
      run: () => new Promise(() => {}),
    })
    const mill = testMill({ jobs: [deaf] })
    const job = await mill.enqueue(deaf, null)
    const worker = mill.worker({ handleSignals: false, abandonAfter: 100 })
    await worker.start()
    await mill.clock.advance(1_000)
    expect(await job.state()).toBe('dead')
    await worker.stop()
  })

  test('a worker that is stopped while it starts leaves nothing behind', async () => {
    const mill = realMill({ jobs: [echo] })
    const before = process.listenerCount('SIGTERM')
    const worker = mill.worker()
    const starting = worker.start()
    await worker.stop()
    await starting
    await mill.close()
    expect(process.listenerCount('SIGTERM')).toBe(before)
  })

  test('a result that looks like a promise and is none fails cleanly', async () => {
    const odd = defineJob({
      name: 'odd',
      run: () => ({
        // biome-ignore lint/suspicious/noThenProperty: that is the point
        get then(): never {
          throw new Error('gotcha')
        },
      }),
    })
    const mill = testMill({ jobs: [odd] })
    const job = await mill.enqueue(odd, null)
    await mill.drain()
    expect(await job.state()).toBe('retrying')
  })

  test('an enqueue that a handler did not wait for says that it came too late', async () => {
    let late: Promise<unknown> = Promise.resolve()
    const hasty = defineJob({
      name: 'hasty',
      run: (_: null, { enqueue }) => {
        late = enqueue(echo, 1)
        late.catch(() => {})
      },
    })
    const mill = testMill({ jobs: [hasty, echo] })
    await mill.enqueue(hasty, null)
    await mill.drain()
    await expect(late).rejects.toMatchObject({ code: 'LEASE_LOST' })
  })

  test('canaries are found behind thousands of other dead letters', async () => {
    const dies = defineJob({
      name: 'dies',
      maxAttempts: 1,
      run: () => {
        throw new Error('x')
      },
    })
    const other = defineJob({ name: 'other', maxAttempts: 1, run: dies.run })
    const mill = testMill({ jobs: [dies, other] })
    await mill.enqueueMany(dies, Array(3).fill(null))
    await mill.drain()
    await mill.clock.advance(1_000)
    await mill.enqueueMany(other, Array(5_200).fill(null))
    await mill.drain()
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const replay = mill.dead.retryAll({ name: 'dies' }, { canary: 1 })
    await mill.clock.advance(3_000)
    expect(await replay).toMatchObject({ retried: 1, stopped: true })
    await worker.stop()
  })

  test('what is no definition, no options or no filter is refused by name', async () => {
    const mill = testMill({ jobs: [echo] })
    await expect(mill.enqueue('echo' as never, 1 as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      field: 'job',
    })
    await expect(mill.enqueue(echo, 1, null as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    expect(() => defineJob(undefined as never)).toThrow(/defineJob is undefined/)
    await expect(mill.dead.list({ after: '2020' as never })).rejects.toMatchObject({ field: 'after' })
    expect(() => mill.jobs({ state: 'bogus' as never })).toThrow(/state is "bogus"/)
  })
})

describe('a lease that was lost', () => {
  test('frees its slot in the end, however often it is reported', async () => {
    const deaf = defineJob({ name: 'deaf', timeout: 0, maxCrashes: 9, run: () => new Promise(() => {}) })
    const mill = testMill({ jobs: [deaf] })
    await mill.enqueue(deaf, null)
    const store = storeOf(mill)
    const worker = mill.worker({ handleSignals: false, lease: '1s', abandonAfter: '2s' })
    await worker.start()
    await mill.clock.advance(100)
    expect(worker.active).toBe(1)
    await mill.queue('default').pause()
    const real = store.extend.bind(store)
    store.extend = async (request) => {
      const result = await real(request)
      return { ...result, lost: request.held.map(({ id }) => id) }
    }
    await mill.clock.advance(5_000)
    expect(worker.active).toBe(0)
    await worker.stop({ grace: 0 })
  })
})

describe('a job that was lost and claimed again by the same worker', () => {
  test('runs under its new lease', async () => {
    const gates: (() => void)[] = []
    const slow = defineJob({
      name: 'slow',
      timeout: 0,
      maxCrashes: 9,
      run: () => new Promise<string>((resolve) => gates.push(() => resolve('done'))),
    })
    const mill = testMill({ jobs: [slow] })
    const job = await mill.enqueue(slow, null)
    const store = storeOf(mill)
    const worker = mill.worker({ handleSignals: false, lease: '3s', concurrency: 1, prefetch: 1 })
    await worker.start()
    await mill.clock.advance(100)
    // Frozen past its lease, as far as the others can tell: they rescue the job.
    const { claimed } = { claimed: await mill.jobs({ state: 'running' }) }
    const real = store.extend.bind(store)
    store.extend = () => Promise.reject(new Error('frozen'))
    mill.on('error', () => {})
    mill.clock.jump(4_000)
    const { orphans } = await store.sweep({ limit: 10, keep: { completed: 10, dead: 10 } })
    expect(orphans.map(({ id }) => id)).toEqual(claimed.jobs.map(({ id }) => id))
    const [orphan] = orphans
    const outcome = outcomeOf({ to: 'pending', crashed: true })
    await store.exchange({
      worker: worker.id,
      rescue: true,
      claim: undefined,
      settlements: [{ id: job.id, token: orphan?.token ?? '', outcome, inserts: undefined }],
    })
    store.extend = real
    // It wakes up, claims the job a second time while the first run is still in its slot, and renews.
    await mill.clock.advance(2_500)
    expect(await job.get()).toMatchObject({ state: 'running', attempt: 2 })
    gates[0]?.()
    await mill.clock.advance(500)
    gates[1]?.()
    await mill.clock.advance(500)
    expect(await job.get()).toMatchObject({ state: 'completed', attempt: 2 })
    await worker.stop({ grace: 0 })
  })
})

describe('a job under the lease of a worker that does not have it', () => {
  test('runs after all when the claim was never heard of', async () => {
    const mill = testMill({ jobs: [echo] })
    const stalled: string[] = []
    mill.on('stalled', ({ id }) => stalled.push(id))
    const store = storeOf(mill)
    const worker = mill.worker({ handleSignals: false, lease: '3s' })
    await worker.start()
    const real = store.exchange.bind(store)
    store.exchange = async (request) => {
      const result = await real(request)
      if (result.claimed.length === 0) return result
      store.exchange = real
      return { ...result, claimed: [] }
    }
    const job = await mill.enqueue(echo, 5)
    await mill.clock.advance(2_000)
    expect(await job.state()).toBe('running')
    await mill.clock.advance(3_000)
    expect(await job.get()).toMatchObject({ state: 'completed', attempt: 1, crashes: 0 })
    expect(stalled).toEqual([job.id])
    await worker.stop()
  })

  test('runs again when the store forgot how it had ended, though its neighbour runs on', async () => {
    const go = signal()
    const slow = defineJob({ name: 'slow', timeout: 0, run: () => go.promise })
    const mill = testMill({ jobs: [echo, slow] })
    const store = storeOf(mill)
    const jobs = [await mill.enqueue(slow, null), await mill.enqueue(echo, 5)] as const
    const worker = mill.worker({ handleSignals: false, lease: '3s' })
    const real = store.exchange.bind(store)
    store.exchange = async (request) => {
      const forgets = request.settlements.some(({ id }) => id === jobs[1].id)
      if (!forgets) return real(request)
      store.exchange = real
      return { settled: request.settlements.map(() => 'applied' as const), claimed: [], opens: undefined }
    }
    await worker.start()
    await mill.clock.advance(2_000)
    expect(await Promise.all(jobs.map((job) => job.state()))).toEqual(['running', 'running'])
    await mill.clock.advance(3_000)
    expect(await Promise.all(jobs.map((job) => job.state()))).toEqual(['running', 'completed'])
    go.give()
    await mill.clock.advance(100)
    expect(await jobs[0].get()).toMatchObject({ state: 'completed', attempt: 1 })
    await worker.stop()
  })

  test('is none while its settlement is on its way, however long that takes', async () => {
    const mill = testMill({ jobs: [echo] })
    const store = storeOf(mill)
    const worker = mill.worker({ handleSignals: false, lease: '3s' })
    await worker.start()
    const arrive = signal()
    const real = store.exchange.bind(store)
    store.exchange = async (request) => {
      if (request.settlements.length > 0) {
        store.exchange = real
        await arrive.promise
      }
      return real(request)
    }
    const lost: string[] = []
    for (const event of ['lost', 'stalled'] as const) mill.on(event, ({ id }) => lost.push(id))
    const job = await mill.enqueue(echo, 5)
    await mill.clock.advance(10_000)
    expect(await job.state()).toBe('running')
    arrive.give()
    // Time waits no longer for a call that took so long.
    await vi.waitUntil(async () => (await job.state()) === 'completed')
    expect(await job.get()).toMatchObject({ attempt: 1 })
    expect(lost).toEqual([])
    await worker.stop()
  })

  test('is none when the worker heard of the claim while it asked', async () => {
    const go = signal()
    let runs = 0
    const count = () => {
      runs++
      return go.promise
    }
    const slow = defineJob({ name: 'slow', timeout: 0, run: count })
    const mill = testMill({ jobs: [slow] })
    const store = storeOf(mill)
    const worker = mill.worker({ handleSignals: false, lease: '3s' })
    await worker.start()
    const real = store.extend.bind(store)
    const late = signal()
    // The store does what was asked before the claim, and a lease after it.
    store.extend = async (request) => {
      await late.promise
      return real(request)
    }
    await mill.clock.advance(1_100)
    const job = await mill.enqueue(slow, null)
    await mill.clock.advance(2_950)
    mill.clock.jump(100)
    late.give()
    await mill.clock.advance(500)
    expect(await job.state()).toBe('running')
    go.give()
    await mill.clock.advance(500)
    expect(await job.get()).toMatchObject({ state: 'completed', attempt: 1 })
    expect(runs).toBe(1)
    await worker.stop()
  })
})

test('a listener of the store that throws harms neither the verb nor the other listeners', async () => {
  const mill = testMill()
  const store = storeOf(mill)
  await mill.open()
  const uncaught = catchUncaught()
  const heard: string[] = []
  // Once: some engines tell of a job that is arriving as well.
  store.subscribe(({ type }) => {
    if (type === 'ready') throw new Error('a faulty listener')
  })
  store.subscribe(({ type }) => heard.push(type))
  await mill.enqueue(defineJob({ name: 'any', run: () => null }), null)
  expect((await uncaught).message).toBe('a faulty listener')
  expect(heard).toContain('ready')
})

/** The next uncaught error, which is then nobody else's. */
function catchUncaught(): Promise<Error> {
  const others = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  return new Promise((resolve) => {
    process.once('uncaughtException', (error) => {
      for (const other of others) process.on('uncaughtException', other)
      resolve(error)
    })
  })
}

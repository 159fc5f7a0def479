import { setMaxListeners } from 'node:events'
import { defineJob, type MillraceError, snooze } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test, vi } from 'vitest'
import { pace } from './engines.js'
import { realMill, signal, storeOf, testMill, vanish } from './mill.js'

describe('a worker', () => {
  test('runs no more than its slots at a time', async () => {
    let running = 0
    let most = 0
    const busy = defineJob({
      name: 'busy',
      run: async () => {
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 1))
        running--
      },
    })
    const mill = testMill({ jobs: [busy], worker: { concurrency: 7 } })
    await mill.enqueueMany(busy, Array(100).fill(null))
    await mill.drain()
    expect(most).toBe(7)
    expect((await mill.stats()).totals.completed).toBe(100)
  })

  test('a timeout aborts the signal, and the handler that heeds it fails with JOB_TIMEOUT', async () => {
    const slow = defineJob({
      name: 'slow',
      timeout: '2s',
      maxAttempts: 1,
      run: (_: null, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const mill = testMill({ jobs: [slow] })
    const job = await mill.enqueue(slow, null)
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await mill.clock.advance(1_900)
    expect(await job.state()).toBe('running')
    await mill.clock.advance(200)
    expect((await job.get())?.failure).toMatchObject({ code: 'JOB_TIMEOUT' })
    await worker.stop()
  })

  test('a handler that ignores its signal is abandoned, reported and can write nothing', async () => {
    const end = signal()
    const deaf = defineJob({
      name: 'deaf',
      timeout: '1s',
      maxAttempts: 1,
      run: async (_: null, { progress, enqueue }) => {
        await end.promise
        progress('late')
        await expect(enqueue(deaf, null)).rejects.toMatchObject({ code: 'LEASE_LOST' })
        return 'late'
      },
    })
    const mill = testMill({ jobs: [deaf] })
    const abandoned: string[] = []
    mill.on('abandoned', ({ id }) => abandoned.push(id))
    const job = await mill.enqueue(deaf, null)
    const worker = mill.worker({ handleSignals: false, abandonAfter: '3s' })
    await worker.start()
    await mill.clock.advance(3_900)
    expect(await job.state()).toBe('running')
    await mill.clock.advance(200)
    expect(abandoned).toEqual([job.id])
    expect(worker.active).toBe(0)
    end.give()
    await mill.clock.advance(1_000)
    expect(await job.get()).toMatchObject({ state: 'dead', result: undefined, progress: undefined })
    await worker.stop()
  })

  test('cancel reaches the running handler and one that waits', async () => {
    const started = signal()
    const patient = defineJob({
      name: 'patient',
      timeout: 0,
      run: (_: null, { signal }) => {
        started.give()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    })
    const mill = testMill({ jobs: [patient] })
    const told: [string, string | undefined][] = []
    mill.on('cancelled', ({ id, reason }) => told.push([id, reason]))
    const running = await mill.enqueue(patient, null)
    const worker = mill.worker({ handleSignals: false, concurrency: 1 })
    await worker.start()
    await started.promise
    const waiting = await mill.enqueue(patient, null)
    expect(await waiting.cancel('not needed')).toBe('cancelled')
    expect(await running.cancel('stop it')).toBe('asked')
    await mill.clock.advance(50)
    expect(await running.get()).toMatchObject({ state: 'cancelled', cancelReason: 'stop it' })
    expect(await running.cancel()).toBe('finished')
    await expect(running.result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
    expect(told).toEqual([
      [waiting.id, 'not needed'],
      [running.id, 'stop it'],
    ])
    await worker.stop()
  })

  test('a cancel reaches a job that was fetched and waits for a slot', async () => {
    const go = signal()
    const started: string[] = []
    const slow = defineJob({
      name: 'slow',
      run: async (_: null, { jobId }) => {
        started.push(jobId)
        await go.promise
      },
    })
    const mill = testMill({ jobs: [slow] })
    const told: string[] = []
    mill.on('cancelled', ({ id }) => told.push(id))
    const [first, second, third] = await mill.enqueueMany(slow, [null, null, null])
    const worker = mill.worker({ handleSignals: false, concurrency: 1, prefetch: 2 })
    await worker.start()
    await vi.waitUntil(async () => (await third?.state()) === 'running')
    expect(await second?.cancel()).toBe('asked')
    await vi.waitUntil(() => told.length > 0)
    expect(await second?.state()).toBe('cancelled')
    go.give()
    await vi.waitUntil(async () => (await third?.state()) === 'completed')
    expect(started).toEqual([first?.id, third?.id])
    expect(told).toEqual([second?.id])
    await worker.stop()
  })

  test('a job that fails before its worker hears of the cancel is cancelled, and both are told', async () => {
    const doomed = defineJob({
      name: 'doomed',
      run: async (_: null, { jobId }) => {
        await mill.job(jobId).cancel('not needed')
        throw new Error('failed on its own')
      },
    })
    const mill: TestMill = testMill({ jobs: [doomed] })
    const told: string[] = []
    mill.on('failed', ({ failure }) => told.push(`failed: ${failure.message}`))
    mill.on('retrying', () => told.push('retrying'))
    mill.on('cancelled', ({ reason }) => told.push(`cancelled: ${reason}`))
    // The worker hears of cancels through its renewals only.
    vi.spyOn(storeOf(mill), 'extend').mockResolvedValue({ lost: [], cancels: [], open: [], strays: [] })
    const job = await mill.enqueue(doomed, null)
    await mill.drain()
    expect(await job.get()).toMatchObject({ state: 'cancelled', cancelReason: 'not needed' })
    expect(told).toEqual(['failed: failed on its own', 'cancelled: undefined'])
  })

  test('a cancelled job whose worker is lost is told as stalled and cancelled', async () => {
    const work = defineJob({ name: 'work', run: () => null })
    const mill = testMill({ jobs: [work] })
    const told: unknown[] = []
    mill.on('stalled', ({ worker }) => told.push(worker))
    mill.on('cancelled', ({ reason }) => told.push(reason))
    const job = await mill.enqueue(work, null)
    expect(await vanish(mill, 'ghost')).toEqual([job.id])
    expect(await job.cancel('not needed')).toBe('asked')
    const sweeper = mill.worker({ queues: ['elsewhere'], handleSignals: false })
    await sweeper.start()
    await mill.clock.advance(32_000)
    expect(told).toEqual(['ghost', 'not needed'])
    expect(await job.state()).toBe('cancelled')
    await sweeper.stop()
  })

  test('says when it has stopped, started or not', async () => {
    const mill = testMill()
    const options = { queues: ['any'], handleSignals: false }
    const [never, once] = [mill.worker(options), mill.worker(options)]
    const stopped: string[] = []
    void never.stopped.then(() => stopped.push('never'))
    void once.stopped.then(() => stopped.push('once'))
    await once.start()
    await mill.clock.advance(10)
    expect(stopped).toEqual([])
    await once.stop()
    await never.stop()
    await Promise.all([never.stopped, once.stopped])
    expect(stopped.sort()).toEqual(['never', 'once'])
  })

  test('thousands who wait for results share their reads', async () => {
    const mill = testMill({ jobs: [] })
    const quick = defineJob({ name: 'quick', run: (n: number) => n })
    const jobs = await mill.enqueueMany(
      quick,
      Array.from({ length: 2_500 }, (_, i) => i),
    )
    const get = vi.spyOn(storeOf(mill), 'get')
    const aborts = new AbortController()
    setMaxListeners(0, aborts.signal)
    const waits = Promise.allSettled(jobs.map((job) => job.result({ signal: aborts.signal })))
    await vi.waitUntil(() => get.mock.calls.length >= 3)
    for (const job of jobs.slice(0, 50)) await job.cancel()
    await mill.clock.advance(30)
    await vi.waitUntil(() => get.mock.calls.length >= 6)
    expect(get.mock.calls.length).toBeLessThanOrEqual(9)
    aborts.abort()
    expect((await waits).every(({ status }) => status === 'rejected')).toBe(true)
  })

  test('a handler that completes in spite of a cancel has completed', async () => {
    const started = signal()
    const finish = signal()
    const stubborn = defineJob({
      name: 'stubborn',
      run: async () => {
        started.give()
        await finish.promise
        return 'done'
      },
    })
    const mill = testMill({ jobs: [stubborn] })
    const job = await mill.enqueue(stubborn, null)
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await started.promise
    await job.cancel()
    finish.give()
    await mill.clock.advance(50)
    expect(await job.result()).toBe('done')
    await worker.stop()
  })

  test('stop waits for what runs, gives back what has not started, and releases at the deadline', async () => {
    const reasons: unknown[] = []
    const hang = defineJob({
      name: 'hang',
      timeout: 0,
      run: (_: number, { signal }) =>
        new Promise(() =>
          signal.addEventListener('abort', () => reasons.push((signal.reason as MillraceError).code)),
        ),
    })
    const mill = testMill({ jobs: [hang] })
    const jobs = await mill.enqueueMany(hang, [1, 2, 3, 4, 5])
    const worker = mill.worker({ handleSignals: false, concurrency: 2, prefetch: 2 })
    await worker.start()
    await mill.clock.advance(10)
    expect((await mill.stats()).states).toMatchObject({ running: 4, pending: 1 })
    const stopped = worker.stop({ grace: '10s' })
    await mill.clock.advance(10)
    expect((await mill.stats()).states).toMatchObject({ running: 2, pending: 3 })
    await mill.clock.advance(10_000)
    await stopped
    expect(reasons).toEqual(['SHUTDOWN', 'SHUTDOWN'])
    expect((await mill.stats()).states).toMatchObject({ running: 0, pending: 5 })
    expect((await jobs[0]?.get())?.attempt).toBe(0)
  })

  test('a job of an unknown name is put off, spends nothing, and runs where it is known', async () => {
    const known = defineJob({ name: 'known', run: () => 'ok' })
    const unknown = defineJob({ name: 'unknown', run: () => 'ok' })
    const mill = testMill({ jobs: [known] })
    const heard: string[] = []
    mill.on('unknown', ({ name }) => heard.push(name))
    const job = await mill.enqueue(unknown, null)
    await mill.drain()
    expect(heard).toEqual(['unknown'])
    expect(await job.get()).toMatchObject({ state: 'scheduled', attempt: 0 })
  })

  test('the jobs of a lost worker come back, and after the crash cap the job is dead', async () => {
    const poison = defineJob({
      name: 'poison',
      maxCrashes: 2,
      retain: { dead: '1h' },
      run: () => null,
    })
    const mill = testMill({ jobs: [poison] })
    const stalled: string[] = []
    mill.on('stalled', ({ worker }) => stalled.push(worker))
    const job = await mill.enqueue(poison, null)
    // Does the housekeeping, but takes no jobs of this queue.
    const sweeper = mill.worker({ queues: ['elsewhere'], handleSignals: false })
    await sweeper.start()
    for (const crash of [1, 2]) {
      expect(await vanish(mill, `ghost-${crash}`)).toEqual([job.id])
      await mill.clock.advance(29_000)
      expect(await job.get()).toMatchObject({ state: 'running', attempt: crash })
      await mill.clock.advance(3_000)
      expect((await job.get())?.crashes).toBe(crash)
    }
    expect(stalled).toEqual(['ghost-1', 'ghost-2'])
    const dead = await job.get()
    expect(dead).toMatchObject({ state: 'dead', failure: { code: 'JOB_CRASHED' } })
    expect(Number(dead?.expiresAt) - Number(dead?.finishedAt)).toBe(3_600_000)
    await sweeper.stop()
  })

  test('a job on its last life runs alone, so that a neighbour cannot take it along', async () => {
    let running = 0
    const company: number[] = []
    const work = defineJob({
      name: 'work',
      maxCrashes: 2,
      run: async () => {
        company.push(++running)
        await new Promise((resolve) => setTimeout(resolve, 1))
        running--
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 5 } })
    await mill.enqueueMany(work, Array(5).fill(null))
    const sweeper = mill.worker({ queues: ['elsewhere'], handleSignals: false })
    await sweeper.start()
    expect(await vanish(mill, 'ghost')).toHaveLength(5)
    await mill.clock.advance(32_000)
    await sweeper.stop()
    await mill.enqueueMany(work, Array(20).fill(null))
    await mill.drain()
    expect(company.slice(0, 5)).toEqual([1, 1, 1, 1, 1])
    expect(Math.max(...company.slice(5))).toBeGreaterThan(1)
    expect((await mill.stats()).states).toMatchObject({ completed: 25, dead: 0 })
  })
})

describe('in real time', () => {
  test('an idle worker starts a job within moments, and again after being idle', async () => {
    const echo = defineJob({ name: 'echo', run: (n: number) => n })
    const mill = realMill({ jobs: [echo] })
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    for (const n of [1, 2, 3]) {
      const before = performance.now()
      expect(await (await mill.enqueue(echo, n)).result({ timeout: '5s' })).toBe(n)
      expect(performance.now() - before).toBeLessThan(500)
    }
  })

  test('thousands of jobs with failures and snoozes all end', async () => {
    const count = 10_000 * Math.max(pace, 0.2)
    const mixed = defineJob({
      name: 'mixed',
      backoff: { type: 'fixed', initialDelay: 5 },
      run: (n: number, { attempt, metadata }) => {
        void metadata
        if (n % 7 === 0 && attempt === 1) throw new Error('first time')
        if (n % 11 === 0 && Math.random() < 0.5) return snooze(5)
        return n
      },
    })
    const mill = realMill({ jobs: [mixed] })
    const worker = mill.worker({ handleSignals: false, concurrency: 50 })
    await mill.enqueueMany(
      mixed,
      Array.from({ length: count }, (_, i) => i),
    )
    await worker.start()
    await mill.queue('default').drain({ later: true, timeout: '25s' })
    const { states, totals } = await mill.stats()
    expect(states).toMatchObject({ completed: count, pending: 0, running: 0, dead: 0 })
    expect(totals).toMatchObject({ enqueued: count, completed: count, retried: Math.ceil(count / 7) })
  })
})

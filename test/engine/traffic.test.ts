import { defineJob, limited, MillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { pace } from './engines.js'
import { realMill, signal, testMill } from './mill.js'

/** Starts by virtual time, relative to the first. */
function journal(mill: { clock: { now(): number } }) {
  const starts: { at: number; what: unknown }[] = []
  return { starts, note: (what: unknown) => starts.push({ at: mill.clock.now(), what }) }
}

function worstWindow(times: readonly number[], per: number): number {
  return Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + per).length))
}

describe('a hold that was told too long', () => {
  test.each([
    ['of a key', 'acme'],
    ['of the definition', undefined],
  ] as const)('%s can be ended', async (_what, key) => {
    let asked = 0
    const call = defineJob({
      name: 'call',
      key: (input: { account: string | undefined }) => input.account,
      run: () => (++asked === 1 ? limited('30d') : 'done'),
    })
    const mill = testMill({ jobs: [call] })
    const job = await mill.enqueue(call, { account: key })
    await mill.drain()
    expect(await job.state()).toBe('pending')
    await mill.definition(call).release(key)
    await mill.drain()
    expect(await job.result()).toBe('done')
    expect(await job.get()).toMatchObject({ attempt: 1 })
  })
})

describe('limits of a definition', () => {
  test('a rate holds in every window, and all jobs run in the end', async () => {
    const times: number[] = []
    const call = defineJob({
      name: 'call',
      limit: { rate: { max: 10, per: '1s' } },
      run: () => void times.push(mill.clock.now()),
    })
    const mill = testMill({ jobs: [call], worker: { concurrency: 50 } })
    await mill.enqueueMany(call, fill(null, 95))
    await mill.drain()
    expect(times).toHaveLength(10)
    await mill.drain({ later: true })
    expect(times).toHaveLength(95)
    expect(worstWindow(times, 1000)).toBe(10)
    expect((times.at(-1) as number) - (times[0] as number)).toBeLessThan(9_200)
  })

  test('burst spreads the starts', async () => {
    const times: number[] = []
    const call = defineJob({
      name: 'call',
      limit: { rate: { max: 10, per: '1s', burst: 1 } },
      run: () => void times.push(mill.clock.now()),
    })
    const mill = testMill({ jobs: [call] })
    await mill.enqueueMany(call, fill(null, 10))
    await mill.drain({ later: true })
    const gaps = times.slice(1).map((at, i) => at - (times[i] as number))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(100)
  })

  test('work without limits does not wait behind work with limits', async () => {
    const slow = defineJob({ name: 'slow', limit: { rate: { max: 1, per: '1h' } }, run: () => {} })
    const free = defineJob({ name: 'free', run: () => {} })
    const mill = testMill({ jobs: [slow, free] })
    await mill.enqueueMany(slow, fill(null, 1500))
    const job = await mill.enqueue(free, null)
    await mill.drain()
    expect(await job.state()).toBe('completed')
    expect((await mill.stats()).jobs.slow?.states).toMatchObject({ completed: 1, pending: 1499 })
  })

  test('a limit is set, raised and taken away at run time', async () => {
    let done = 0
    const work = defineJob({ name: 'work', run: () => void done++ })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, fill(null, 30))
    await mill.definition(work).limit({ rate: { max: 5, per: '1h' } })
    await mill.drain()
    expect(done).toBe(5)
    expect(await mill.definition('work').status()).toMatchObject({ room: 0, running: 0, breaker: 'closed' })
    await mill.definition(work).limit({ rate: { max: 8, per: '1h' } })
    await mill.drain()
    expect(done).toBe(8)
    await mill.definition(work).limit(null)
    await mill.drain()
    expect(done).toBe(30)
  })

  test('a rate chosen at run time leaves the declared concurrency alone', async () => {
    let now = 0
    let most = 0
    const work = defineJob({
      name: 'work',
      limit: { concurrency: 1, rate: { max: 1, per: '1h' } },
      run: async () => {
        most = Math.max(most, ++now)
        await new Promise((resolve) => setTimeout(resolve, 1))
        now--
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 10 } })
    await mill.enqueueMany(work, fill(null, 12))
    await mill.definition(work).limit({ rate: { max: 10, per: '1h' } })
    await mill.drain()
    expect((await mill.stats()).totals.completed).toBe(10)
    expect(most).toBe(1)
    await mill.definition(work).limit(null)
    expect((await mill.definition(work).status()).room).toBe(0)
  })

  test('concurrency bounds what runs at the same time', async () => {
    let now = 0
    let most = 0
    const work = defineJob({
      name: 'work',
      limit: { concurrency: 3 },
      run: async () => {
        most = Math.max(most, ++now)
        await new Promise((resolve) => setTimeout(resolve, 2))
        now--
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 20 } })
    await mill.enqueueMany(work, fill(null, 30))
    await mill.drain()
    expect(most).toBe(3)
    expect((await mill.stats()).totals.completed).toBe(30)
  })

  test('a deploy that declares no limit any more takes it back', async () => {
    const before = defineJob({ name: 'work', limit: { rate: { max: 1, per: '1h' } }, run: () => {} })
    const after = defineJob({ name: 'work', run: () => {} })
    const mill = testMill({ jobs: [after] })
    await mill.enqueueMany(before, [1, 2, 3])
    await mill.drain()
    expect((await mill.stats()).states.pending).toBe(2)
    // The next process with the newer definition says so when it opens.
    const { Declarations } = await import('../../src/client/declare.js')
    const { storeOf } = await import('./mill.js')
    await new Declarations(() => storeOf(mill)).declare([after])
    await mill.drain()
    expect((await mill.stats()).states.pending).toBe(0)
  })
})

test('a definition that is only enqueued takes back none of the limits that the code declares elsewhere', async () => {
  const charge = defineJob({ name: 'charge', limit: { concurrency: 1 }, run: () => {} })
  const mill = testMill({ jobs: [charge] })
  await mill.open()
  const rated = defineJob({ name: 'charge', limit: { rate: { max: 9, per: '1s' } }, run: () => {} })
  const stub = defineJob({ name: 'charge', run: () => {} })
  const grouped = defineJob({ name: 'charge', group: () => 'g', run: () => {} })
  for (const known of [stub, grouped, rated]) {
    await mill.enqueueMany(known, [1])
    await mill.enqueue(known, 2)
    expect((await mill.definition(charge).status()).room).toBe(1)
  }
})

test('a definition without limits tells how many of its jobs run', async () => {
  const [started, end] = [signal(), signal()]
  const work = defineJob({
    name: 'work',
    run: async () => {
      started.give()
      await end.promise
    },
  })
  const mill = realMill({ jobs: [work] })
  const handle = await mill.enqueue(work, 1)
  await mill.worker({ handleSignals: false }).start()
  await started.promise
  expect(await mill.definition(work).status()).toMatchObject({ running: 1, room: undefined })
  end.give()
  await handle.result()
  expect((await mill.definition(work).status()).running).toBe(0)
})

describe('keys', () => {
  test('limits count per key', async () => {
    const { starts, note } = journal({ clock: { now: () => mill.clock.now() } })
    const call = defineJob({
      name: 'call',
      key: (input: { host: string }) => input.host,
      keyLimit: { rate: { max: 2, per: '1s' } },
      run: (input: { host: string }) => void note(input.host),
    })
    const mill = testMill({ jobs: [call] })
    await mill.enqueueMany(
      call,
      Array.from({ length: 30 }, (_, i) => ({ host: `h${i % 3}` })),
    )
    await mill.drain()
    expect(starts).toHaveLength(6)
    await mill.drain({ later: true })
    expect(starts).toHaveLength(30)
    for (const host of ['h0', 'h1', 'h2']) {
      const times = starts.filter(({ what }) => what === host).map(({ at }) => at)
      expect(worstWindow(times, 1000)).toBe(2)
    }
  })

  test('a 429 of one key holds that key, spends no attempt, and leaves the others alone', async () => {
    const seen: string[] = []
    let refusals = 1
    const call = defineJob({
      name: 'call',
      maxAttempts: 1,
      key: (input: { host: string }) => input.host,
      run: (input: { host: string }) => {
        if (input.host === 'a' && refusals-- > 0) return limited('30s')
        seen.push(input.host)
        return 'ok'
      },
    })
    const mill = testMill({ jobs: [call], worker: { concurrency: 1 } })
    const heard: unknown[] = []
    mill.on('limited', ({ key, delay }) => heard.push([key, delay]))
    await mill.enqueueMany(call, [{ host: 'a' }, { host: 'a' }, { host: 'b' }, { host: 'a' }])
    await mill.drain()
    expect(seen).toEqual(['b'])
    expect(heard).toEqual([['a', 30_000]])
    const before = mill.clock.now()
    await mill.drain({ later: true })
    expect(seen).toEqual(['b', 'a', 'a', 'a'])
    expect(mill.clock.now() - before).toBe(30_000)
    expect((await mill.stats()).totals).toMatchObject({ completed: 4, failed: 0, dead: 0 })
  })

  test('a dead letter that is replayed with another input belongs to another key', async () => {
    const call = defineJob({
      name: 'call',
      maxAttempts: 1,
      key: (input: { host: string }) => input.host,
      run: (input: { host: string }) => {
        if (input.host === 'a') throw new Error('no such host')
      },
    })
    const mill = testMill({ jobs: [call] })
    const job = await mill.enqueue(call, { host: 'a' })
    await mill.drain()
    await mill.dead.retry(job.id, { input: { host: 'b' } })
    expect((await job.get())?.key).toBe('b')
    await mill.drain()
    expect(await job.state()).toBe('completed')
  })

  test('without a key the whole definition waits', async () => {
    let refusals = 1
    const call = defineJob({ name: 'call', run: () => (refusals-- > 0 ? limited('1m') : 'ok') })
    const other = defineJob({ name: 'other', run: () => 'ok' })
    const mill = testMill({ jobs: [call, other], worker: { concurrency: 1 } })
    await mill.enqueueMany(call, [1, 2, 3])
    await mill.enqueueMany(other, [1])
    await mill.drain()
    expect((await mill.stats()).jobs.call?.states.pending).toBe(3)
    expect((await mill.stats()).jobs.other?.states.completed).toBe(1)
    await mill.drain({ later: true })
    expect((await mill.stats()).jobs.call?.states.completed).toBe(3)
  })
})

describe('groups', () => {
  test('a noisy tenant delays another by one turn', async () => {
    const noisy = 1000 * pace
    const order: string[] = []
    const work = defineJob({
      name: 'work',
      group: (input: { tenant: string }) => input.tenant,
      run: (input: { tenant: string }) => void order.push(input.tenant),
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 1, prefetch: 0 } })
    await mill.enqueueMany(
      work,
      Array.from({ length: noisy }, () => ({ tenant: 'noisy' })),
    )
    await mill.enqueueMany(work, [{ tenant: 'quiet' }])
    await mill.drain()
    expect(order.indexOf('quiet')).toBeLessThanOrEqual(2)
    expect(order).toHaveLength(noisy + 1)
  })

  test('pause, resume, depth and weight', async () => {
    const order: string[] = []
    const work = defineJob({
      name: 'work',
      queue: 'mail',
      group: (input: string) => input,
      run: (input: string) => void order.push(input),
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 1, prefetch: 0 } })
    const queue = mill.queue('mail')
    await queue.group('big').weight(3)
    await queue.group('held').pause()
    await mill.enqueueMany(work, [...fill('big', 30), ...fill('small', 10), ...fill('held', 5)])
    expect(await queue.group('held').depth()).toEqual({ name: 'held', pending: 5, running: 0, paused: true })
    expect((await queue.groups()).groups.map(({ name }) => name).sort()).toEqual(['big', 'held', 'small'])
    await mill.drain()
    expect(order).toHaveLength(40)
    expect(order.slice(0, 20).filter((tenant) => tenant === 'big')).toHaveLength(15)
    await queue.group('held').resume()
    await mill.drain()
    expect(order.slice(40)).toEqual(fill('held', 5))
  })

  test('a new job of a group that was resumed does not overtake those that waited', async () => {
    const order: number[] = []
    const work = defineJob({
      name: 'work',
      queue: 'mail',
      group: () => 'only',
      run: (n: number) => void order.push(n),
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 1, prefetch: 0 } })
    await mill.queue('mail').group('only').pause()
    await mill.enqueueMany(
      work,
      Array.from({ length: 20 }, (_, n) => n),
    )
    await mill.drain()
    await mill.queue('mail').group('only').resume()
    const first = mill.worker({ concurrency: 1, prefetch: 0, handleSignals: false })
    await first.start()
    await mill.clock.advance(0)
    await mill.enqueue(work, 99)
    await mill.drain()
    await first.stop()
    expect(order).toEqual([...order].sort((a, b) => a - b))
    expect(order).toHaveLength(21)
  })

  test('each group has its limit, and one may have its own', async () => {
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const work = defineJob({
      name: 'work',
      queue: 'mail',
      group: (input: string) => input,
      run: async (input: string) => {
        const now = (running.get(input) ?? 0) + 1
        running.set(input, now)
        most.set(input, Math.max(now, most.get(input) ?? 0))
        await new Promise((resolve) => setTimeout(resolve, 2))
        running.set(input, (running.get(input) as number) - 1)
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 20 } })
    await mill.queue('mail').groupLimit({ concurrency: 1 })
    await mill.queue('mail').group('big').limit({ concurrency: 4 })
    await mill.enqueueMany(work, [...fill('big', 20), ...fill('small', 5)])
    await mill.drain()
    expect(Object.fromEntries(most)).toEqual({ big: 4, small: 1 })
  })
})

describe('a breaker', () => {
  test('opens, keeps attempts, probes and closes', async () => {
    let broken = true
    let calls = 0
    const call = defineJob({
      name: 'call',
      maxAttempts: 3,
      backoff: { type: 'fixed', initialDelay: 10, jitter: 'none' },
      breaker: { minimum: 5, failureRate: 0.5, window: '1m', cooldown: '10s', probes: 2 },
      run: () => {
        calls++
        if (broken) throw new MillraceError('STORE_FAILED', 'the other side is down')
      },
    })
    const mill = testMill({ jobs: [call], worker: { concurrency: 1, prefetch: 0 } })
    const phases: string[] = []
    mill.on('breaker', ({ phase }) => phases.push(phase))
    await mill.enqueueMany(call, fill(null, 50))
    await mill.drain()
    expect(calls).toBe(5)
    expect((await mill.definition(call).status()).breaker).toBe('open')
    await mill.advance('9s')
    expect(calls).toBe(5)
    broken = false
    await mill.drain({ later: true })
    expect((await mill.stats()).totals).toMatchObject({ completed: 50, failed: 5 })
    expect(phases).toEqual(['open', 'half-open', 'closed'])
  })

  test('is opened and closed by hand, with or without a policy', async () => {
    let calls = 0
    const call = defineJob({ name: 'call', run: () => void calls++ })
    const mill = testMill({ jobs: [call] })
    await mill.definition(call).openBreaker()
    await mill.enqueueMany(call, [1, 2, 3])
    await mill.drain({ later: true })
    expect(calls).toBe(0)
    await mill.definition(call).closeBreaker()
    await mill.drain()
    expect(calls).toBe(3)
  })
})

describe('a limiter', () => {
  test('gives permits in order, no more than its rate', async () => {
    const mill = testMill({})
    const limiter = mill.limiter('stripe', { max: 3, per: '1s' })
    const times: number[] = []
    const all = Promise.all(
      Array.from({ length: 8 }, async () => {
        await limiter.acquire()
        times.push(mill.clock.now())
      }),
    )
    for (let i = 0; i < 6; i++) await mill.clock.advance(500)
    await all
    expect(worstWindow(times, 1000)).toBe(3)
    expect(await limiter.tryAcquire({ weight: 3 })).toBe(false)
  })

  test('a signal and a timeout end the wait, a missing rate is told', async () => {
    const mill = testMill({})
    const limiter = mill.limiter('stripe', { max: 1, per: '1h' })
    await limiter.acquire()
    const controller = new AbortController()
    const aborted = expect(limiter.acquire({ signal: controller.signal })).rejects.toThrow('enough')
    const late = expect(limiter.acquire({ timeout: '1s' })).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' })
    await mill.clock.advance(10)
    controller.abort(new Error('enough'))
    await mill.clock.advance(1000)
    await Promise.all([aborted, late])
    await expect(mill.limiter('nobody').acquire()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(limiter.acquire({ weight: 2 })).rejects.toMatchObject({ field: 'weight' })
  })

  test('is shared with the definitions that name it', async () => {
    let calls = 0
    const call = defineJob({ name: 'call', limiter: 'stripe', run: () => void calls++ })
    const mill = testMill({ jobs: [call] })
    const limiter = mill.limiter('stripe', { max: 5, per: '1h' })
    await limiter.acquire({ weight: 3 })
    await mill.enqueueMany(call, [1, 2, 3, 4])
    await mill.drain()
    expect(calls).toBe(2)
    expect(await limiter.tryAcquire()).toBe(false)
  })
})

function fill<T>(value: T, count: number): T[] {
  return Array.from({ length: count }, () => value)
}

test('a permit that comes back in one queue starts a job of the same definition in another at once', async () => {
  const order: string[] = []
  const first = signal()
  const started = signal()
  const second = signal()
  const work = defineJob({
    name: 'work',
    limit: { concurrency: 1 },
    run: async (name: string) => {
      order.push(name)
      if (name === 'one') {
        started.give()
        await first.promise
      } else second.give()
    },
  })
  const mill = realMill({ jobs: [work] })
  for (const queue of ['a', 'b'])
    await mill.worker({ queues: [queue], poll: '1h', handleSignals: false, prefetch: 0 }).start()
  await mill.enqueue(work, 'one', { queue: 'a' })
  await started.promise
  await mill.enqueue(work, 'two', { queue: 'b' })
  first.give()
  await second.promise
  expect(order).toEqual(['one', 'two'])
})

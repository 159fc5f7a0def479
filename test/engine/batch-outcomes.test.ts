import fc from 'fast-check'
import {
  type BatchOutcome,
  cancel,
  defineBatchJob,
  defineJob,
  limited,
  NonRetryableError,
  snooze,
} from 'millrace'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { numbers } from './batches.js'
import { pace } from './engines.js'
import { storeOf, testMill } from './mill.js'

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
  await fc.assert(fc.asyncProperty(plans, settings, playOut), { numRuns: Math.ceil(25 * pace) })
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

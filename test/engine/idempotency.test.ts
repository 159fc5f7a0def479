import { defineBatchJob, defineJob, type MillraceEvents, snooze } from 'millrace'
import { runJob } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { signal, storeOf, testMill, vanish } from './mill.js'

interface Payment {
  order: string
  amount: number
}

const key = ({ order }: Payment) => order

describe('idempotency of a definition', () => {
  test('a second job with the key gets the stored result, and its handler is not called', async () => {
    const charged: number[] = []
    const charge = defineJob({
      name: 'charge',
      idempotency: { key },
      run: ({ amount }: Payment) => {
        charged.push(amount)
        return { receipt: `r-${amount}`, at: new Date(0) }
      },
    })
    const mill = testMill({ jobs: [charge] })
    const completed: MillraceEvents['completed'][] = []
    const started: string[] = []
    mill.on('completed', (event) => completed.push(event))
    mill.on('started', ({ id }) => started.push(id))
    const first = await mill.enqueue(charge, { order: 'a', amount: 1 })
    await mill.drain()
    const second = await mill.enqueue(charge, { order: 'a', amount: 2 })
    const other = await mill.enqueue(charge, { order: 'b', amount: 3 })
    await mill.drain()
    expect(charged).toEqual([1, 3])
    expect(await second.result()).toEqual({ receipt: 'r-1', at: new Date(0) })
    expect(await second.result()).toEqual(await first.result())
    expect(completed.map(({ id, stored }) => [id, stored])).toEqual(
      expect.arrayContaining([
        [first.id, undefined],
        [second.id, true],
        [other.id, undefined],
      ]),
    )
    expect(started).not.toContain(second.id)
    await mill.advance('7d')
    await mill.enqueue(charge, { order: 'a', amount: 4 })
    await mill.drain()
    expect(charged).toEqual([1, 3, 4])
  })

  test('jobs with the key wait for the one that runs, also between its attempts, and spend no attempt', async () => {
    const calls: string[] = []
    const charge = defineJob({
      name: 'charge',
      idempotency: { key },
      backoff: { type: 'fixed', initialDelay: '10s', jitter: 'none' },
      run: ({ amount }: Payment, { jobId, attempt }) => {
        calls.push(`${jobId} ${attempt}`)
        if (attempt < 3) throw new Error('not yet')
        return amount
      },
    })
    const mill = testMill({ jobs: [charge], worker: { concurrency: 5 } })
    const handles = await mill.enqueueMany(
      charge,
      [1, 2, 3].map((amount) => ({ order: 'a', amount })),
    )
    await mill.drain({ later: true })
    const ran = calls.map((call) => call.split(' ')[0])
    expect(new Set(ran).size).toBe(1)
    expect(calls).toHaveLength(3)
    const results = await Promise.all(handles.map((handle) => handle.result()))
    expect(new Set(results).size).toBe(1)
    const attempts = await Promise.all(handles.map(async (handle) => (await handle.get())?.attempt))
    expect(attempts.sort()).toEqual([1, 1, 3])
    const { totals } = await mill.stats()
    expect([totals.completed, totals.retried]).toEqual([3, 2])
  })

  test('the next one runs when the first died or was cancelled', async () => {
    const seen: number[] = []
    const charge = defineJob({
      name: 'charge',
      maxAttempts: 1,
      idempotency: { key },
      run: ({ amount }: Payment) => {
        seen.push(amount)
        if (amount < 0) throw new Error('refused')
        if (amount === 0) return snooze('1d')
        return amount
      },
    })
    const mill = testMill({ jobs: [charge], worker: { concurrency: 1 } })
    await mill.enqueue(charge, { order: 'a', amount: -1 })
    const later = await mill.enqueue(charge, { order: 'a', amount: 0 })
    await mill.drain()
    const last = await mill.enqueue(charge, { order: 'a', amount: 5 })
    await mill.drain()
    expect(await last.state()).toBe('scheduled')
    await later.cancel()
    await mill.advance('1m')
    expect(await last.result()).toBe(5)
    expect(seen).toEqual([-1, 0, 5])
  })

  test('the key is handed to the handler, the same for each attempt; without the option it is the job’s id', async () => {
    const seen: string[] = []
    const charge = defineJob({
      name: 'shop/charge',
      idempotency: { key },
      run: (_: Payment, { idempotencyKey, attempt }) => {
        seen.push(idempotencyKey)
        if (attempt === 1) throw new Error('again')
      },
    })
    const plain = defineJob({ name: 'plain', run: (_: null, { idempotencyKey }) => idempotencyKey })
    const mill = testMill({ jobs: [charge, plain] })
    await mill.enqueue(charge, { order: 'a', amount: 1 })
    const other = await mill.enqueue(plain, null)
    await mill.drain({ later: true })
    expect(seen).toEqual(['shop/charge:a', 'shop/charge:a'])
    expect(await other.result()).toBe(other.id)
    expect((await runJob(plain, null, { jobId: 'x' })).result).toBe('x')
    seen.length = 0
    await runJob(charge, { order: 'b', amount: 1 })
    expect(seen).toEqual(['shop/charge:b'])
  })

  test('a job of a lost worker goes on under its key', async () => {
    const seen: string[] = []
    const charge = defineJob({
      name: 'charge',
      idempotency: { key },
      run: (_: Payment, { jobId }) => void seen.push(jobId),
    })
    const mill = testMill({ jobs: [charge] })
    const first = await mill.enqueue(charge, { order: 'a', amount: 1 })
    await vanish(mill, 'lost')
    const second = await mill.enqueue(charge, { order: 'a', amount: 2 })
    await mill.worker({ handleSignals: false }).start()
    await mill.clock.advance(1_000)
    expect(await second.state()).toBe('scheduled')
    await mill.clock.advance(120_000)
    expect(seen).toEqual([first.id])
    expect(await second.state()).toBe('completed')
  })

  test('a completed job that is replayed by hand is done again', async () => {
    let calls = 0
    const charge = defineJob({ name: 'charge', idempotency: { key }, run: (_: Payment) => ++calls })
    const mill = testMill({ jobs: [charge] })
    const job = await mill.enqueue(charge, { order: 'a', amount: 1 })
    await mill.drain()
    await mill.dead.retry(job.id)
    await mill.drain()
    expect(await job.result()).toBe(2)
    await mill.dead.retry(job.id, { input: { order: 'b', amount: 1 } })
    await mill.drain()
    expect(calls).toBe(3)
    const again = await mill.enqueue(charge, { order: 'b', amount: 1 })
    await mill.drain()
    expect(await again.result()).toBe(3)
  })

  test('a payment that was made is not made by a duplicate because its replay failed', async () => {
    const charged: number[] = []
    const charge = defineJob({
      name: 'charge',
      maxAttempts: 1,
      idempotency: { key },
      run: ({ amount }: Payment) => {
        if (charged.length > 0) throw new Error('provider down')
        charged.push(amount)
        return amount
      },
    })
    const mill = testMill({ jobs: [charge] })
    const paid = await mill.enqueue(charge, { order: 'a', amount: 1 })
    await mill.drain()
    await mill.dead.retry(paid.id)
    await mill.drain()
    expect(await paid.state()).toBe('dead')
    const duplicate = await mill.enqueue(charge, { order: 'a', amount: 2 })
    await mill.drain()
    expect(await duplicate.result()).toBe(1)
    expect(charged).toEqual([1])
  })

  test('duplicates that look whether the first is done take nothing of a rate', async () => {
    const ran: number[] = []
    const charge = defineJob({
      name: 'charge',
      limit: { rate: { max: 2, per: '10s' } },
      limiter: 'bank',
      idempotency: { key },
      run: async ({ amount }: Payment, { step }) => {
        if (amount === 0) await step.sleep('1h')
        ran.push(amount)
      },
    })
    const mill = testMill({ jobs: [charge] })
    mill.limiter('bank', { max: 2, per: '10s' })
    await mill.enqueue(charge, { order: 'slow', amount: 0 })
    await mill.drain()
    for (let i = 0; i < 5; i++) await mill.enqueue(charge, { order: 'slow', amount: 100 })
    await mill.advance('10s')
    for (let amount = 1; amount <= 6; amount++) await mill.enqueue(charge, { order: `o${amount}`, amount })
    const done: number[] = []
    for (let i = 0; i < 3; i++) {
      await mill.advance('10s')
      done.push(ran.length)
    }
    expect(done).toEqual([2, 4, 6])
  })

  test('batches leave out what is done or being done', async () => {
    const seen: number[][] = []
    const charge = defineBatchJob({
      name: 'charge',
      idempotency: { key },
      batch: { size: 10, wait: 10 },
      run: (payments: Payment[], { jobs }) => {
        seen.push(payments.map(({ amount }) => amount))
        return jobs.map(({ idempotencyKey }) => idempotencyKey)
      },
    })
    const mill = testMill({ jobs: [charge] })
    const payments = ['a', 'b', 'a', 'c'].map((order, amount) => ({ order, amount }))
    const handles = await mill.enqueueMany(charge, payments)
    await mill.drain({ later: true })
    expect(seen).toEqual([[0, 1, 3]])
    const results = await Promise.all(handles.map((handle) => handle.result()))
    expect(results).toEqual(['charge:a', 'charge:b', 'charge:a', 'charge:c'])
  })

  test('what a handler enqueues has its guard, and retention of the job itself stays its own', async () => {
    const charge = defineJob({
      name: 'charge',
      idempotency: { key },
      retain: 0,
      run: ({ amount }: Payment) => amount,
    })
    const order = defineJob({
      name: 'order',
      run: (input: Payment, { enqueue }) => enqueue(charge, input),
    })
    const mill = testMill({ jobs: [charge, order] })
    await mill.enqueue(order, { order: 'a', amount: 1 })
    await mill.drain()
    const second = await mill.enqueue(charge, { order: 'a', amount: 2 }, { retain: '1h' })
    await mill.drain()
    expect(await second.result()).toBe(1)
    const third = await mill.enqueue(charge, { order: 'a', amount: 3 })
    await mill.drain()
    expect(await third.get()).toBeUndefined()
  })

  test('a ttl shorter than the retries is refused with the least one', () => {
    const define = (ttl: string, more = {}) =>
      defineJob({
        name: 'charge',
        maxAttempts: 3,
        maxCrashes: 2,
        timeout: '10s',
        backoff: { type: 'exponential', initialDelay: '4s', maxDelay: '1m', jitter: 'full' },
        idempotency: { key, ttl },
        run: (_: Payment) => {},
        ...more,
      })
    // 3 attempts and 1 for a crash of 10 s, delays of 4 and 8 s, one lease of 30 s.
    const least = 4 * 10_000 + 12_000 + 30_000
    expect(() => define('81s')).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        field: 'idempotency.ttl',
        value: '81s',
        limit: least,
      }),
    )
    expect(() => define('81s')).toThrow(`expected at least ${least} ms`)
    expect(define('82s').idempotency?.ttl).toBe(82_000)
    expect(() => define('82s', { timeout: '11s' })).toThrow('expected at least 86000 ms')
    expect(() => define('82s', { timeout: 0 })).toThrow('no ttl outlasts an attempt that may run for ever')
    expect(() => define('1m', { maxAttempts: 1, maxCrashes: 1, timeout: '1m' })).not.toThrow()
  })

  test('an enqueue or a replay that makes the retries longer than the ttl is refused', async () => {
    const charge = defineJob({
      name: 'charge',
      maxAttempts: 1,
      maxCrashes: 1,
      timeout: '1m',
      idempotency: { key, ttl: '1m' },
      run: (_: Payment) => {},
    })
    const adds = defineJob({
      name: 'adds',
      maxAttempts: 1,
      run: (_: null, { enqueue }) => enqueue(charge, { order: 'a', amount: 1 }, { timeout: '2m' }),
    })
    const mill = testMill({ jobs: [charge, adds] })
    const input = { order: 'a', amount: 1 }
    const refused = { code: 'INVALID_OPTION', field: 'idempotency.ttl' }
    for (const options of [{ maxAttempts: 2 }, { maxCrashes: 2 }, { timeout: '61s' }] as const)
      await expect(mill.enqueue(charge, input, options)).rejects.toMatchObject(refused)
    await expect(mill.enqueueMany(charge, [input], { maxAttempts: 2 })).rejects.toMatchObject(refused)
    await expect(mill.enqueue(charge, input, { timeout: 0 })).rejects.toThrow('for ever')
    const job = await mill.enqueue(charge, input, { timeout: '59s', maxAttempts: 1 })
    const added = await mill.enqueue(adds, null)
    await mill.drain()
    expect(await added.state()).toBe('dead')
    await expect(mill.dead.retry(job.id, { maxAttempts: 2 })).rejects.toMatchObject(refused)
    await expect(mill.dead.retry(job.id, { timeout: '2m' })).rejects.toMatchObject(refused)
    await mill.dead.retry(job.id)
  })

  test('wrong options and wrong keys are refused with a word', async () => {
    const run = (_: Payment) => {}
    expect(() => defineJob({ name: 'x', idempotency: { key: 'k' as never }, run })).toThrow('idempotency.key')
    expect(() => defineJob({ name: 'x', idempotency: { key, tll: 1 } as never, run })).toThrow(
      "did you mean 'ttl'",
    )
    const make = (told: () => unknown) =>
      defineJob({ name: 'x', idempotency: { key: told as () => string }, run })
    const mill = testMill()
    const input = { order: 'a', amount: 1 }
    for (const told of [() => undefined, () => null, () => '', () => ({}), () => 'x'.repeat(129)])
      await expect(mill.enqueue(make(told), input)).rejects.toMatchObject({ field: 'idempotency.key' })
    await expect(
      mill.enqueue(
        make(async () => 'k'),
        input,
      ),
    ).rejects.toThrow('returned a promise')
    await expect(
      mill.enqueue(
        make(() => {
          throw new Error('oops')
        }),
        input,
      ),
    ).rejects.toThrow("threw 'oops'; expected it to return a text or a number for every input")
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })
})

describe('mill.idempotent', () => {
  test('does the work once and gives the result to whoever comes later', async () => {
    const mill = testMill()
    let calls = 0
    const pay = () => mill.idempotent('order-1', () => ({ call: ++calls, at: new Date(5) }))
    expect(await pay()).toEqual({ call: 1, at: new Date(5) })
    expect(await pay()).toEqual({ call: 1, at: new Date(5) })
    expect(await mill.idempotent('order-2', ({ idempotencyKey }) => idempotencyKey)).toBe('order-2')
    expect(await mill.idempotent(7, () => undefined)).toBeUndefined()
    expect(await mill.idempotent('7', () => 'never')).toBeUndefined()
    await mill.clock.advance(7 * 86_400_000)
    expect(await pay()).toMatchObject({ call: 2 })
  })

  test('work that throws is not done, and the next call tries again', async () => {
    const mill = testMill()
    const error = new Error('declined')
    await expect(mill.idempotent('k', () => Promise.reject(error))).rejects.toBe(error)
    await expect(
      mill.idempotent('k', () => {
        throw error
      }),
    ).rejects.toBe(error)
    expect(await mill.idempotent('k', () => 'ok')).toBe('ok')
  })

  test('a result that cannot be stored is an error', async () => {
    const mill = testMill()
    await expect(mill.idempotent('k', () => ({ f: () => 1 }))).rejects.toMatchObject({
      code: 'PAYLOAD_NOT_SERIALISABLE',
      field: '$.f',
    })
    expect(await mill.idempotent('k', () => 'ok')).toBe('ok')
  })

  test('waits for another that is at it, and renews its lease meanwhile', async () => {
    const mill = testMill()
    const began = signal()
    const go = signal()
    let calls = 0
    const work = async () => {
      calls++
      began.give()
      await go.promise
      return 'paid'
    }
    const first = mill.idempotent('k', work, { lease: '1s' })
    await began.promise
    const second = mill.idempotent('k', work, { wait: '1h' })
    await mill.clock.advance(60_000)
    go.give()
    expect(await first).toBe('paid')
    await mill.clock.advance(1_000)
    expect(await second).toBe('paid')
    expect(calls).toBe(1)
  })

  test('waits no longer than it was told, or until its signal says so', async () => {
    const mill = testMill()
    const go = signal()
    const first = mill.idempotent('k', () => go.promise)
    await mill.clock.advance(0)
    await expect(mill.idempotent('k', () => 1, { wait: 0 })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_BUSY',
    })
    const late = expect(mill.idempotent('k', () => 1, { wait: '5s' })).rejects.toThrow('after 5000 ms')
    await mill.clock.advance(6_000)
    await late
    const controller = new AbortController()
    const aborted = mill.idempotent('k', () => 1, { signal: controller.signal })
    await mill.clock.advance(10)
    controller.abort(new Error('enough'))
    await expect(aborted).rejects.toThrow('enough')
    go.give()
    await first
  })

  test('the work of a process that was lost is done by the next', async () => {
    const mill = testMill()
    await mill.open()
    await storeOf(mill).guard({ do: 'begin', key: ':k', holder: 'lost', lease: 30_000 })
    const next = mill.idempotent('k', () => 'done', { wait: '1m' })
    await mill.clock.advance(31_000)
    expect(await next).toBe('done')
  })

  test('one that lost its key hears of it, and its result is not taken for the one', async () => {
    const mill = testMill()
    await mill.open()
    const store = storeOf(mill)
    let heard: unknown
    const go = signal()
    const first = mill.idempotent(
      'k',
      async ({ signal: lost }) => {
        lost.addEventListener('abort', () => {
          heard = lost.reason
        })
        await go.promise
        return 'late'
      },
      { lease: '3s' },
    )
    const failed = expect(first).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await mill.clock.advance(0)
    mill.clock.jump(3600_000) // as if this process had slept
    await store.guard({ do: 'begin', key: ':k', holder: 'another', lease: 30_000 })
    await mill.clock.advance(1_000)
    expect(heard).toMatchObject({ code: 'LEASE_LOST' })
    go.give()
    await failed
    await store.guard({ do: 'complete', key: ':k', holder: 'another', result: '"other"', retain: 1_000 })
    expect(await mill.idempotent('k', () => 'never')).toBe('other')
  })

  test('begin, complete and fail by hand', async () => {
    const mill = testMill()
    const { idempotency } = mill
    const first = await idempotency.begin<number>('k')
    if (first.status !== 'begun') throw new Error(first.status)
    expect(await idempotency.begin('k')).toEqual({ status: 'busy', retryIn: 100 })
    await mill.clock.advance(50_000)
    await first.renew()
    await mill.clock.advance(50_000)
    expect((await idempotency.begin('k')).status).toBe('busy')
    await first.complete(42)
    await first.complete(42)
    expect(await idempotency.begin('k')).toEqual({ status: 'done', result: 42 })
    const failing = await idempotency.begin('other', { lease: '1s' })
    if (failing.status !== 'begun') throw new Error(failing.status)
    await failing.fail()
    const lapsing = await idempotency.begin('other', { lease: '1s' })
    if (lapsing.status !== 'begun') throw new Error(lapsing.status)
    await mill.clock.advance(1_000)
    expect((await idempotency.begin('other')).status).toBe('begun')
    await expect(lapsing.complete(1)).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await expect(lapsing.renew()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await lapsing.fail()
  })

  test('its keys are not those of jobs', async () => {
    const charge = defineJob({ name: 'charge', idempotency: { key }, run: (_: Payment) => 'by a job' })
    const mill = testMill({ jobs: [charge] })
    const job = await mill.enqueue(charge, { order: 'a', amount: 1 })
    await mill.drain()
    expect(await mill.idempotent('charge:a', () => 'by a call')).toBe('by a call')
    expect(await job.result()).toBe('by a job')
  })

  test('wrong options are refused with a word', async () => {
    const mill = testMill()
    await expect(mill.idempotent('', () => 1)).rejects.toMatchObject({ field: 'key' })
    await expect(mill.idempotent('k', 1 as never)).rejects.toMatchObject({ field: 'fn' })
    await expect(mill.idempotent('k', () => 1, { lease: 5 })).rejects.toMatchObject({
      field: 'lease',
      limit: 100,
    })
    await expect(mill.idempotent('k', () => 1, { tll: 5 } as never)).rejects.toThrow("did you mean 'ttl'")
    await expect(mill.idempotency.begin('k', { wait: 1 } as never)).rejects.toThrow("no option 'wait'")
  })
})

/** Sagas that time out, lose their workers, are cancelled late, or are asked for too much. */
import { type ClaimedJob, type Codec, cancel, defineJob, Millrace, NonRetryableError, snooze } from 'millrace'
import { defineSaga, saga } from 'millrace/saga'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { realMill, signal, storeOf, testMill } from './mill.js'

const fixed = { type: 'fixed', initialDelay: '1s', jitter: 'none' } as const
const quick = { backoff: fixed, compensation: { maxAttempts: 3, backoff: fixed } }
const no = () => {
  throw new NonRetryableError('no')
}
/** Ends when it is told to stop. */
const hang = ({ signal: stop }: { signal: AbortSignal }) =>
  new Promise<never>((_, reject) => stop.addEventListener('abort', () => reject(stop.reason)))

describe('a compensation that ends without a word', () => {
  test('fails for good when it has timed out as often as it may be tried, and a retry goes on with it', async () => {
    let tries = 0
    const slow = defineSaga({
      name: 'slow',
      ...quick,
      timeout: '10s',
      steps: [
        { name: 'a', run: () => 1, compensate: (c) => (++tries > 3 ? undefined : hang(c)) },
        { name: 'b', run: no, compensate: () => {} },
      ],
    })
    const mill = testMill({ jobs: [slow] })
    const told: string[] = []
    mill.on('dead', ({ failure }) => told.push(`dead ${failure.code}`))
    mill.on('compensationFailed', ({ failure }) => told.push(failure.message))
    const job = await mill.enqueue(slow, {})
    const worker = mill.worker()
    await worker.start()
    await mill.clock.advance(300_000)
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'COMPENSATION_FAILED' } })
    expect(tries).toBe(3)
    expect(told).toEqual([
      'dead COMPENSATION_FAILED',
      expect.stringContaining(
        "step 'a' of the saga could not be undone, after 3 tries: it ended by a timeout or with its worker",
      ),
    ])
    await mill.dead.retry(job.id)
    await mill.clock.advance(300_000)
    await worker.stop()
    expect(tries).toBe(4)
    expect(await job.state()).toBe('cancelled')
  })

  test('fails for good when it takes its worker along as often as it may be tried', async () => {
    const undone: string[] = []
    const deadly = defineSaga({
      name: 'deadly',
      ...quick,
      maxAttempts: 1,
      steps: [
        { name: 'a', run: () => 1, compensate: () => void undone.push('a') },
        {
          name: 'b',
          run: no,
          compensate: () => {
            undone.push('b?')
            throw new Error('busy')
          },
        },
      ],
    })
    const mill = testMill({ jobs: [deadly] })
    let alerts = 0
    mill.on('compensationFailed', () => alerts++)
    const job = await mill.enqueue(deadly, {})
    await mill.drain()
    // One try has failed; the workers of two more are lost in the midst of it.
    for (const n of [2, 3]) {
      expect(await job.state()).toBe('blocked')
      await mill.clock.advance(1_000)
      await storeOf(mill).sweep({ limit: 10, keep: { completed: 10, dead: 10 } })
      await vanishIn(mill, `worker ${n}`, { [`undo:b:begun#${n}`]: n - 1 })
      await mill.clock.advance(40_000)
      const rescuer = mill.worker()
      await rescuer.start()
      await mill.clock.advance(500)
      await rescuer.stop()
    }
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'COMPENSATION_FAILED' } })
    expect([alerts, undone]).toEqual([1, ['b?']])
  })

  test('is not tried again when its worker is lost between giving up and the death of the job', async () => {
    let tries = 0
    const stuck = defineSaga({
      name: 'stuck',
      ...quick,
      steps: [
        {
          name: 'a',
          run: no,
          compensate: () => {
            tries++
            throw new Error('busy')
          },
        },
      ],
    })
    const mill = testMill({ jobs: [stuck] })
    let alerts = 0
    mill.on('compensationFailed', () => alerts++)
    const job = await mill.enqueue(stuck, {})
    await mill.drain()
    await vanishAfterSleep(1, {
      'undo:a:begun#2': 1,
      'undo:a#2': { failed: 'wrong number', final: true },
      'undo:a:gave-up': 1,
    })
    await mill.drain()
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'COMPENSATION_FAILED' } })
    expect([alerts, tries]).toEqual([1, 1])

    // A later life has all its tries, also when it loses a worker.
    await mill.dead.retry(job.id)
    await mill.drain()
    expect([await job.state(), tries]).toEqual(['blocked', 2])
    await vanishAfterSleep(2, { 'undo:a:begun#4': 1 })
    await mill.drain({ later: true })
    expect(await job.state()).toBe('dead')
    expect([alerts, tries]).toEqual([2, 3])

    async function vanishAfterSleep(n: number, written: Record<string, unknown>): Promise<void> {
      await mill.clock.advance(1_000)
      await storeOf(mill).sweep({ limit: 10, keep: { completed: 10, dead: 10 } })
      await vanishIn(mill, `worker ${n}`, written)
      await mill.clock.advance(40_000)
    }
  })

  test('is tried again, and not counted, when it puts itself off', async () => {
    let tries = 0
    const polite = defineSaga({
      name: 'polite',
      ...quick,
      steps: [
        {
          name: 'a',
          run: () => 1,
          compensate: () => {
            if (++tries < 8) throw snooze('1m')
          },
        },
        { name: 'b', run: no, compensate: () => {} },
      ],
    })
    const mill = testMill({ jobs: [polite] })
    const job = await mill.enqueue(polite, {})
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['cancelled', 8])
  })

  test('is tried again, and not counted, when its worker shuts down', async () => {
    let tries = 0
    const begun = [signal(), signal(), signal(), signal(), signal()]
    const slow = defineSaga({
      name: 'slow',
      ...quick,
      steps: [
        {
          name: 'a',
          run: () => 1,
          compensate: (c) => {
            const last = begun[tries++]
            last?.give()
            return last === undefined ? undefined : hang(c)
          },
        },
        { name: 'b', run: no, compensate: () => {} },
      ],
    })
    const mill = realMill({ jobs: [slow] })
    const job = await mill.enqueue(slow, {})
    for (const { promise } of begun) {
      const worker = mill.worker()
      await worker.start()
      await promise
      await worker.stop({ grace: 0 })
    }
    await mill.worker().start()
    await expect(job.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
    expect(tries).toBe(6)
  })

  test('has all its tries again after a retry, also when it had not used them up', async () => {
    let tries = 0
    const picky = defineSaga({
      name: 'picky',
      ...quick,
      steps: [
        {
          name: 'a',
          run: () => 1,
          compensate: () => {
            if (++tries === 2) throw new NonRetryableError('wrong number')
            throw new Error('busy')
          },
        },
        { name: 'b', run: no, compensate: () => {} },
      ],
    })
    const mill = testMill({ jobs: [picky] })
    const job = await mill.enqueue(picky, {})
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['dead', 2])
    await mill.dead.retry(job.id)
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['dead', 5])
  })
})

describe('past its point of no return', () => {
  test('a saga is dead when its attempts are over, and a retry goes on', async () => {
    let runs = 0
    let broken = true
    const order = saga({ name: 'order', ...quick, maxAttempts: 3 })
      .step('ship', { run: () => 'parcel', irreversible: true })
      .step('mail', {
        run: () => {
          runs++
          if (broken) throw new Error('smtp is down')
        },
        irreversible: true,
      })
      .define()
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, {})
    await mill.drain({ later: true })
    expect(runs).toBe(3)
    expect(await job.get()).toMatchObject({
      state: 'dead',
      failure: {
        message:
          "step 'mail' of the saga failed past its point of no return, so nothing is undone: smtp is down. Retry the job to go on",
      },
    })
    broken = false
    await mill.dead.retry(job.id)
    await mill.drain()
    expect(await job.result()).toEqual({ ship: 'parcel', mail: undefined })
  })

  test('a cancel that a step throws ends it dead, and undoes nothing', async () => {
    const undone: string[] = []
    const order = saga({ name: 'order', ...quick })
      .step('pay', { run: () => 1, compensate: () => void undone.push('pay') })
      .step('ship', { run: () => 2, irreversible: true })
      .step('mail', { run: () => Promise.reject(cancel('nobody to tell')), irreversible: true })
      .define()
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, {})
    await mill.drain({ later: true })
    expect(await job.get()).toMatchObject({
      state: 'dead',
      failure: { message: expect.stringMatching(/nobody to tell/) },
    })
    expect(undone).toEqual([])
  })

  test('an irreversible step that ends without a word undoes nothing, nor does a result that cannot be kept', async () => {
    const undone: string[] = []
    let way: 'hangs' | 'odd' | 'fine' = 'hangs'
    const order = saga({ name: 'order', ...quick, timeout: '10s', maxAttempts: 2 })
      .step('pay', { run: () => 1, compensate: () => void undone.push('pay') })
      .step('capture', {
        run: (c): unknown => (way === 'hangs' ? hang(c) : way === 'odd' ? () => {} : 'captured'),
        irreversible: true,
      })
      .define()
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, {})
    const worker = mill.worker()
    await worker.start()
    await mill.clock.advance(60_000)
    expect(await job.get()).toMatchObject({
      state: 'dead',
      failure: { message: expect.stringMatching(/'capture' .* its 2 attempts are over/) },
    })
    way = 'odd'
    await mill.dead.retry(job.id)
    await mill.clock.advance(60_000)
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'PAYLOAD_NOT_SERIALISABLE' } })
    way = 'fine'
    await mill.dead.retry(job.id)
    await mill.clock.advance(60_000)
    await worker.stop()
    expect(await job.result()).toEqual({ pay: 1, capture: 'captured' })
    expect(undone).toEqual([])
  })

  test('it is not cancelled: what has begun is done again under its key, and the log says so', async () => {
    const log: string[] = []
    const begun = signal()
    const order = saga({ name: 'order' })
      .step('pay', { run: () => 1, compensate: () => void log.push('undo pay') })
      .step('capture', {
        run: (c) => {
          log.push(`capture ${c.key}`)
          begun.give()
          return log.length === 1 ? hang(c) : 'captured'
        },
        irreversible: true,
      })
      .define()
    const mill = realMill({ jobs: [order] })
    await mill.worker().start()
    const job = await mill.enqueue(order, {}, { id: 'o' })
    await begun.promise
    expect(await job.cancel('changed my mind')).toBe('asked')
    expect(await job.result({ timeout: '10s' })).toEqual({ pay: 1, capture: 'captured' })
    expect(log).toEqual(['capture o:capture', 'capture o:capture'])
    expect((await job.logs()).map(({ text }) => text)).toEqual([
      'past its point of no return the saga goes on in spite of the cancel: changed my mind',
    ])
    expect((await job.get())?.cancelReason).toBeUndefined()
  })

  test('a cancel that comes before it undoes the saga, though the step is next', async () => {
    const log: string[] = []
    const order = saga({ name: 'order', ...quick, maxAttempts: 5 })
      .step('pay', {
        run: ({ attempt }) => {
          if (attempt === 1) throw new Error('busy')
        },
        compensate: () => void log.push('undo pay'),
      })
      .step('capture', { run: () => void log.push('capture'), irreversible: true })
      .define()
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, {})
    await mill.drain()
    expect(await job.cancel('no')).toBe('asked')
    await mill.drain({ later: true })
    expect([await job.state(), log]).toEqual(['cancelled', ['undo pay']])
  })
})

test("what a step gives is kept by the mill's own codec", async () => {
  class Money {
    constructor(readonly cents: number) {}
  }
  const codec: Codec = {
    encode: (value) => JSON.stringify(value, (_, v) => (v instanceof Money ? { money: v.cents } : v)),
    decode: (text) =>
      JSON.parse(text, (_, v) => (typeof v?.money === 'number' ? new Money(v.money) : v)) as unknown,
  }
  const undone: unknown[] = []
  const pay = defineSaga({
    name: 'pay',
    steps: [
      { name: 'charge', run: () => new Money(5), compensate: ({ result }) => void undone.push(result) },
      { name: 'ship', run: ({ input }) => (input === 'fails' ? no() : 1), compensate: () => {} },
    ],
  })
  const mill = testMill({ jobs: [pay], codec })
  const job = await mill.enqueue(pay, 'fine')
  await mill.enqueue(pay, 'fails')
  await mill.drain()
  expect(await job.result()).toEqual({ charge: new Money(5), ship: 1 })
  expect(undone).toEqual([new Money(5)])
})

describe('a retry', () => {
  test('of a saga that was undone is refused unless it is fresh', async () => {
    let works = false
    const runs: string[] = []
    const order = defineSaga({
      name: 'order',
      steps: [
        {
          name: 'pay',
          run: () => (works ? void runs.push('pay') : no()),
          compensate: () => void runs.push('undo'),
        },
      ],
    })
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, {})
    await mill.drain()
    const refused = mill.dead.retry(job.id)
    await expect(refused).rejects.toMatchObject({ code: 'SAGA_COMPENSATED' })
    await expect(refused).rejects.toThrow(/enqueue a new one, .* or retry with fresh: true/)
    works = true
    await mill.dead.retry(job.id, { fresh: true })
    await mill.drain()
    expect([await job.state(), runs]).toEqual(['completed', ['undo', 'pay']])
  })

  test('cannot give a saga other attempts, also where its definition is not known', async () => {
    const order = defineSaga({
      name: 'order',
      maxAttempts: 1,
      steps: [{ name: 'ship', run: no, irreversible: true }],
    })
    const plain = defineJob({ name: 'plain', maxAttempts: 1, run: no })
    const mill = testMill({ jobs: [order, plain] })
    const job = await mill.enqueue(order, {})
    const other = await mill.enqueue(plain, {})
    await mill.drain()
    const stranger = new Millrace({ store: storeOf(mill) })
    await expect(stranger.dead.retry(job.id, { maxAttempts: 2 })).rejects.toThrow(/'order' is a saga/)
    await expect(mill.dead.retry(job.id, { maxAttempts: 2 })).rejects.toThrow(/'order' is a saga/)
    await mill.dead.retry(other.id, { maxAttempts: 2 })
  })
})

describe('a saga that is to be done again, and is cancelled before it is', () => {
  const twoSteps = (log: string[], fails: () => boolean) =>
    defineSaga({
      name: 'two',
      ...quick,
      maxAttempts: 1,
      steps: [
        { name: 'a', run: () => void log.push('a'), compensate: () => void log.push('undo a') },
        { name: 'b', irreversible: true, run: () => void log.push('b') },
        { name: 'c', irreversible: true, run: () => (fails() ? no() : void log.push('c')) },
      ],
    })

  for (const [what, fails, fresh] of [
    ['completed', false, false],
    ['died, and begins afresh', true, true],
  ] as const) {
    test(`undoes nothing of what it did when it ${what}`, async () => {
      const log: string[] = []
      const definition = twoSteps(log, () => fails)
      const mill = testMill({ jobs: [definition] })
      const job = await mill.enqueue(definition, {})
      await mill.drain({ later: true })
      expect(await job.state()).toBe(fails ? 'dead' : 'completed')
      const done = [...log]
      await mill.dead.retry(job.id, { delay: '1h', fresh })
      expect(await job.cancel('by mistake')).toBe('cancelled')
      await mill.drain({ later: true })
      expect(log).toEqual(done)
    })
  }
})

describe('a saga with an idempotency key', () => {
  const keyed = (log: string[], undoFails = () => false) =>
    defineSaga<{ key: string; fails?: boolean }>({
      name: 'keyed',
      ...quick,
      compensation: { maxAttempts: 1 },
      idempotency: { key: ({ key }) => key },
      steps: [
        {
          name: 'a',
          run: ({ jobId }) => void log.push(`${jobId} a`),
          compensate: ({ jobId }) => {
            log.push(`${jobId} undo a`)
            if (undoFails()) throw new Error('down')
          },
        },
        { name: 'b', run: ({ input }) => (input.fails ? no() : 'b'), compensate: () => {} },
      ],
    })

  test('is cancelled while it waits for the key', async () => {
    const log: string[] = []
    const definition = keyed(log)
    const mill = testMill({ jobs: [definition] })
    const job = await mill.enqueue(definition, { key: 'k' })
    await storeOf(mill).guard({ do: 'begin', key: 'keyed:k', holder: 'me', lease: 3_600_000 })
    await mill.drain()
    expect(await job.state()).toBe('scheduled')
    expect(await job.cancel('no')).toBe('cancelled')
    expect(await job.get()).toMatchObject({ state: 'cancelled', cancelReason: 'no' })
    expect(log).toEqual([])
  })

  test('keeps its key when it dies with something done, until it has ended in a later life', async () => {
    const log: string[] = []
    let down = true
    const definition = keyed(log, () => down)
    const mill = testMill({ jobs: [definition] })
    const first = await mill.enqueue(definition, { key: 'k', fails: true }, { id: 'first' })
    await mill.drain()
    expect(await first.state()).toBe('dead')
    const second = await mill.enqueue(definition, { key: 'k' }, { id: 'second' })
    await mill.advance('1h')
    expect(await second.state()).toBe('scheduled')
    down = false
    await mill.dead.retry('first')
    await mill.advance('1h')
    expect([await first.state(), await second.state()]).toEqual(['cancelled', 'completed'])
    expect(log).toEqual(['first a', 'first undo a', 'first undo a', 'second a'])
  })

  test('undoes what it did though another has completed under the key that it has now', async () => {
    const log: string[] = []
    let down = true
    const definition = keyed(log, () => down)
    const mill = testMill({ jobs: [definition] })
    const first = await mill.enqueue(definition, { key: 'k', fails: true }, { id: 'first' })
    await mill.drain()
    expect(await first.state()).toBe('dead')
    const second = await mill.enqueue(definition, { key: 'other' }, { id: 'second' })
    await mill.drain()
    expect(await second.state()).toBe('completed')
    down = false
    await mill.dead.retry('first', { input: { key: 'other', fails: true } })
    await mill.drain({ later: true })
    expect(await first.state()).toBe('cancelled')
    expect(log).toEqual(['first a', 'first undo a', 'second a', 'first undo a'])
    const third = await mill.enqueue(definition, { key: 'other' }, { id: 'third' })
    await mill.drain()
    expect(await third.result()).toEqual({ a: undefined, b: 'b' })
    expect(log).toHaveLength(4)
  })
})

/** A worker claims the only job, writes these steps, and is never heard of again. */
async function vanishIn(mill: TestMill, worker: string, written: Record<string, unknown>): Promise<void> {
  const store = storeOf(mill)
  const { claimed } = await store.exchange({
    worker,
    settlements: [],
    claim: {
      token: worker,
      lease: 30_000,
      room: { shared: 1, own: [0, 0, 0, 0] },
      picks: [{ queue: 'default', lane: 2, take: 1 }],
      turn: 0,
    },
  })
  const [{ id, token }] = claimed as [ClaimedJob]
  const steps = Object.entries(written).map(([name, value]) => ({
    ...{ name, value: JSON.stringify(value), open: false, until: undefined, signal: undefined, at: 0 },
  }))
  const held = [{ id, token, progress: undefined, logs: undefined, steps }]
  expect((await store.extend({ worker, lease: 30_000, held })).lost).toEqual([])
}

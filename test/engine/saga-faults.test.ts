/** Sagas whose compensations time out, lose their workers, or fail. */
import { type Codec, NonRetryableError, snooze } from 'millrace'
import { defineSaga } from 'millrace/saga'
import { describe, expect, test } from 'vitest'
import { enqueued, hang, lastSeenIn, no, quick, undoneBy } from './faulty-sagas.js'
import { realMill, signal, testMill } from './mill.js'

describe('a compensation that ends without a word', () => {
  test('fails for good when it has timed out as often as it may be tried, and a retry goes on with it', async () => {
    let tries = 0
    const slow = undoneBy((c) => (++tries > 3 ? undefined : hang(c)), { timeout: '10s' })
    const { mill, job } = await enqueued(slow, {})
    const told: string[] = []
    mill.on('dead', ({ failure }) => told.push(`dead ${failure.code}`))
    mill.on('compensationFailed', ({ failure }) => told.push(failure.message))
    const worker = mill.worker({ poll: '10s' })
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
    const { mill, job } = await enqueued(deadly, {})
    let alerts = 0
    mill.on('compensationFailed', () => alerts++)
    await mill.drain()
    // One try has failed; the workers of two more are lost in the midst of it.
    for (const n of [2, 3]) {
      expect(await job.state()).toBe('blocked')
      await lastSeenIn(mill, `worker ${n}`, { [`undo:b:begun#${n}`]: n - 1 })
      const rescuer = mill.worker()
      await rescuer.start()
      for (let i = 0; i < 50 && ['running', 'pending'].includes(await job.state()); i++)
        await mill.clock.advance(100)
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
    const { mill, job } = await enqueued(stuck, {})
    let alerts = 0
    mill.on('compensationFailed', () => alerts++)
    await mill.drain()
    await lastSeenIn(mill, 'worker 1', {
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
    await lastSeenIn(mill, 'worker 2', { 'undo:a:begun#4': 1 })
    await mill.drain({ later: true })
    expect(await job.state()).toBe('dead')
    expect([alerts, tries]).toEqual([2, 3])
  })

  test('is tried again, and not counted, when it puts itself off', async () => {
    let tries = 0
    const polite = undoneBy(() => {
      if (++tries < 8) throw snooze('1m')
    })
    const { mill, job } = await enqueued(polite, {})
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['cancelled', 8])
  })

  test('is tried again, and not counted, when its worker shuts down', async () => {
    let tries = 0
    const begun = [signal(), signal(), signal(), signal(), signal()]
    const slow = undoneBy((c) => {
      const last = begun[tries++]
      last?.give()
      return last === undefined ? undefined : hang(c)
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
    const picky = undoneBy(() => {
      if (++tries === 2) throw new NonRetryableError('wrong number')
      throw new Error('busy')
    })
    const { mill, job } = await enqueued(picky, {})
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['dead', 2])
    await mill.dead.retry(job.id)
    await mill.drain({ later: true })
    expect([await job.state(), tries]).toEqual(['dead', 5])
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

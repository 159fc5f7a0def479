/** Limiters by name: one object each, declared at the opening, and the rate of this moment counts. */
import { defineJob, Millrace, type MillraceEvents } from 'millrace'
import { describe, expect, test } from 'vitest'
import { realMill, storeOf, testMill } from './mill.js'

describe('a rate that the code gives', () => {
  test('is declared before any job starts, without an acquire', async () => {
    const { call, calls } = caller()
    const mill = testMill({ jobs: [call] })
    mill.limiter('stripe', { max: 2, per: '1h' })
    await mill.enqueueMany(call, [1, 2, 3, 4, 5])
    await mill.drain()
    expect(calls()).toBe(2)
  })

  test('is declared at once when the store is open already', async () => {
    const { call, calls } = caller()
    const mill = testMill({ jobs: [call] })
    mill.on('error', () => {})
    await mill.open()
    mill.limiter('stripe', { max: 2, per: '1h' })
    await mill.enqueueMany(call, [1, 2, 3, 4, 5])
    await mill.drain()
    expect(calls()).toBe(2)
  })

  test('can be an option of the Millrace', async () => {
    const mill = realMill({ limiters: { stripe: { max: 2, per: '1h' } } })
    const limiter = mill.limiter('stripe')
    expect(await limiter.tryAcquire({ weight: 2 })).toBe(true)
    expect(await limiter.tryAcquire()).toBe(false)
    expect(() => realMill({ limiters: { stripe: { max: 0, per: '1h' } } })).toThrow(
      'limiters.stripe.max is 0',
    )
  })

  test('belongs to one limiter for each name; another rate is declared anew', async () => {
    const mill = testMill()
    const limiter = mill.limiter('stripe', { max: 1, per: '1h' })
    expect(mill.limiter('stripe')).toBe(limiter)
    expect(mill.limiter('stripe', { max: 1, per: '1h' })).toBe(limiter)
    await limiter.acquire()
    const second = limiter.acquire()
    await mill.clock.advance(0)
    expect(mill.limiter('stripe', { max: 2, per: '1h' })).toBe(limiter)
    await mill.clock.advance(1_000)
    await second
  })

  test('is missed: an error names the job, the limiter and the way out', async () => {
    const { call } = caller()
    const errors: MillraceEvents['error'][] = []
    const mill = testMill({ jobs: [call] })
    mill.on('error', (event) => errors.push(event))
    await mill.open()
    expect(errors).toMatchObject([{ during: 'open', error: { field: 'limiter', value: 'stripe' } }])
    expect(String(errors[0]?.error)).toMatch(/job 'call' has limiter 'stripe'.* new Millrace\({ limiters: /)
  })

  test('is not missed when it was given, here or elsewhere', async () => {
    const { call } = caller()
    const errors: unknown[] = []
    const mill = realMill({ jobs: [call], limiters: { stripe: { max: 1, per: '1s' } } })
    mill.on('error', (event) => errors.push(event))
    await mill.open()
    expect(errors).toEqual([])
  })
})

describe('those who wait for a limiter', () => {
  test('are told when the mill closes, by whichever handle they came', async () => {
    const mill = testMill()
    const limiter = mill.limiter('stripe', { max: 1, per: '1h' })
    await limiter.acquire()
    const handles = [limiter, mill.limiter('stripe'), mill.limiter('stripe', { max: 1, per: '2h' })]
    const all = Promise.allSettled(handles.map((handle) => handle.acquire()))
    await mill.clock.advance(0)
    await mill.close()
    for (const outcome of await all)
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'CLOSED' } })
  })

  test('notice a rate that somebody else has set within a second, or by a signal', async () => {
    const mill = testMill()
    const limiter = mill.limiter('stripe', { max: 1, per: '1h' })
    await limiter.acquire()
    const other = new Millrace({ store: storeOf(mill), clock: mill.clock })
    const second = limiter.acquire()
    await mill.clock.advance(0)
    await other.limiter('stripe').set({ max: 2, per: '1h' })
    await mill.clock.advance(1_000)
    await second
    // With a queue in the store, a change of settings is told.
    await other.enqueue(caller().call, 1)
    const third = limiter.acquire()
    await mill.clock.advance(0)
    await other.limiter('stripe').set({ max: 3, per: '1h' })
    await mill.clock.advance(100)
    await third
  })
})

describe('a weight', () => {
  test('may be what the present rate allows, more or less than the declared one', async () => {
    const mill = testMill()
    const limiter = mill.limiter('stripe', { max: 1, per: '1h' })
    await expect(limiter.acquire({ weight: 2 })).rejects.toMatchObject({
      field: 'weight',
      value: 2,
      limit: 1,
    })
    await expect(limiter.tryAcquire({ weight: 2 })).rejects.toMatchObject({ field: 'weight', limit: 1 })
    await limiter.set({ max: 5, per: '1h', burst: 3 })
    await limiter.acquire({ weight: 3 })
    await expect(limiter.acquire({ weight: 4 })).rejects.toMatchObject({ field: 'weight', limit: 3 })
  })

  test('that became too large in line is refused, and keeps nobody behind it waiting', async () => {
    const mill = testMill()
    const limiter = mill.limiter('stripe', { max: 5, per: '5m' })
    await limiter.acquire({ weight: 5 })
    const light = limiter.acquire()
    const heavy = expect(limiter.acquire({ weight: 3 })).rejects.toMatchObject({ field: 'weight', limit: 2 })
    const last = limiter.acquire()
    await mill.clock.advance(0)
    await limiter.set({ max: 2, per: '5m' })
    await heavy
    await mill.clock.advance(310_000)
    await Promise.all([light, last])
  })
})

function caller() {
  let calls = 0
  const call = defineJob({ name: 'call', limiter: 'stripe', run: () => void calls++ })
  return { call, calls: () => calls }
}

import { cancel } from 'millrace'
import { saga } from 'millrace/saga'
import { describe, expect, test } from 'vitest'
import { enqueued, hang, quick } from './faulty-sagas.js'
import { realMill, signal } from './mill.js'

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
    const { mill, job } = await enqueued(order, {})
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
    const { mill, job } = await enqueued(order, {})
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
    const { mill, job } = await enqueued(order, {})
    const worker = mill.worker({ poll: '10s' })
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
    const { mill, job } = await enqueued(order, {})
    await mill.drain()
    expect(await job.cancel('no')).toBe('asked')
    await mill.drain({ later: true })
    expect([await job.state(), log]).toEqual(['cancelled', ['undo pay']])
  })
})

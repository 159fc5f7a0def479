import { defineJob, type MillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { firedHours, hour, hourly, input, report, sleep, start } from './hourly.js'
import { testMill } from './mill.js'

describe('changes', () => {
  test('repeated, it changes nothing', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill)
    const before = await handle.get()
    await sleep(mill, 10)
    await hourly(mill)
    expect(await handle.get()).toEqual(before)
  })

  test('other jobs, same times: it goes on, and missed slots are not forgotten', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill)
    await mill.advance('1h')
    await sleep(mill, 1.5 * hour)
    await hourly(mill, { input: { of: 'stock' } })
    expect(await handle.get()).toMatchObject({
      next: new Date(start + 2 * hour),
      fired: 1,
      input: { of: 'stock' },
    })
    await mill.drain()
    const [job] = await mill.assertEnqueued(report, { of: 'stock' }, 1)
    expect(job?.id).toBe('schedule:hourly:2030-01-01T02:00:00.000Z')
  })

  test('one that never fires is told when it is new; one that has come to its end may be repeated', async () => {
    const mill = testMill({ jobs: [report] })
    const told: unknown[] = []
    mill.on('error', ({ error, during }) => told.push([(error as MillraceError).field, during]))
    const until = new Date(start + 2 * hour)
    await hourly(mill, { until })
    await mill.advance('5h')
    for (const jitter of [0, '1s', '1s'] as const) await hourly(mill, { until, jitter })
    expect(await firedHours(mill)).toEqual([1, 2])
    expect(told).toEqual([])

    for (let deploy = 0; deploy < 2; deploy++) {
      const late = await mill.schedule('late', { every: '1h', job: report, input, until })
      expect(await late.next()).toEqual([])
      await mill.schedule('yearly', {
        cron: '@yearly',
        job: report,
        input,
        until: new Date(start + 9 * hour),
      })
    }
    const expected = [
      ['until', "schedule 'late'"],
      ['until', "schedule 'yearly'"],
    ]
    expect(told).toEqual(expected)
    await mill.advance('1d')
    expect(await mill.enqueued(report)).toHaveLength(2)
    expect(told).toEqual(expected)
  })

  test('other times: it begins afresh', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill)
    await mill.advance('1h')
    await sleep(mill, 1.5 * hour)
    await hourly(mill, { every: '2h' })
    const next = new Date(start + 4 * hour)
    expect(await handle.get()).toMatchObject({ next, fired: 0, last: new Date(start + hour) })
    await mill.advance('2h')
    expect(await firedHours(mill)).toEqual([1, 4])
  })

  test('a raised limit lets it go on', async () => {
    const mill = testMill({ jobs: [report] })
    await hourly(mill, { limit: 1 })
    await mill.advance('3h')
    await hourly(mill, { limit: 3 })
    await mill.advance('9h')
    expect(await firedHours(mill)).toEqual([1, 4, 5])
  })

  test('a lowered limit ends it', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill, { limit: 9, catchUp: 'all' })
    await mill.advance('3h')
    await hourly(mill, { limit: 2, catchUp: 'all' })
    expect(await handle.next(5)).toEqual([])
    expect((await handle.get())?.next).toBeUndefined()
    await sleep(mill, 5 * hour)
    await mill.drain()
    expect(await firedHours(mill)).toEqual([1, 2, 3])
  })

  test('paused it drops its slots; resumed it goes on with the next', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill, { catchUp: 'all' })
    await handle.pause()
    expect(await handle.get()).toMatchObject({ paused: true, next: undefined })
    expect(await handle.next(3)).toEqual([])
    await mill.advance('3h')
    await handle.resume()
    expect(await handle.get()).toMatchObject({ paused: false, next: new Date(start + 4 * hour) })
    await mill.advance('1h')
    expect(await firedHours(mill)).toEqual([4])
  })

  test('removed it fires no more, and its name is free', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill)
    await mill.advance('1h')
    expect(await handle.remove()).toBe(true)
    expect(await handle.remove()).toBe(false)
    await mill.advance('2h')
    expect(await handle.get()).toBeUndefined()
    expect(await firedHours(mill)).toEqual([1])
    await hourly(mill)
    await mill.advance('1h')
    expect(await firedHours(mill)).toEqual([1, 4])
  })

  test('triggered it adds one job now, and none for an id that is there', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill)
    await handle.pause()
    const job = await handle.trigger({ id: 'now' })
    const again = await handle.trigger({ id: 'now' })
    expect([job.status, again.status]).toEqual(['inserted', 'duplicate'])
    const other = await handle.trigger()
    await mill.drain()
    expect(await job.result()).toBe('report of sales')
    expect(await other.result()).toBe('report of sales')
    expect(await handle.get()).toMatchObject({ fired: 0, last: undefined, lastJob: undefined })
    await expect(handle.trigger({ name: 'now' } as never)).rejects.toMatchObject({ field: 'name' })
  })

  test('triggered twice it is done twice, though its idempotency key is the same, and slots are done too', async () => {
    const runs: string[] = []
    const pay = defineJob<number>({
      name: 'pay',
      idempotency: { key: (n) => n },
      run: (_, { jobId }) => void runs.push(jobId),
    })
    const mill = testMill({ jobs: [pay] })
    const handle = await mill.schedule('pay', { every: '1h', job: pay, input: 1 })
    const slot = new Date(start + hour)
    // An id that looks like a slot is none.
    const ids = ['a', 'b', `${slot.getTime()}`]
    for (const id of [...ids, 'a']) {
      await handle.trigger({ id })
      await mill.drain()
    }
    await mill.advance('1h')
    expect(runs).toEqual([...ids, `schedule:pay:${slot.toISOString()}`])
  })

  test('a handle of one that is not there says so', async () => {
    const mill = testMill()
    const handle = mill.schedule('nobody')
    expect(await handle.get()).toBeUndefined()
    for (const call of [
      () => handle.next(),
      () => handle.pause(),
      () => handle.resume(),
      () => handle.trigger(),
    ])
      await expect(call()).rejects.toMatchObject({ code: 'SCHEDULE_NOT_FOUND', value: 'nobody' })
    await expect(handle.next(0)).rejects.toMatchObject({ field: 'count' })
  })
})

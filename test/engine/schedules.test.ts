import { defineJob, MillraceError, type MillraceEvents } from 'millrace'
import { describe, expect, test } from 'vitest'
import { isRemote } from './engines.js'
import { firedHours, hour, hourly, input, report, start } from './hourly.js'
import { realMill, storeOf, testMill } from './mill.js'

describe('slots', () => {
  test('each fires one job at its time, which knows its schedule', async () => {
    const seen: unknown[] = []
    const tick = defineJob<string>({
      name: 'tick',
      run: (of, { schedule, jobId }) => void seen.push([of, schedule, jobId, new Date(mill.clock.now())]),
    })
    const mill = testMill({ jobs: [tick] })
    const nightly = { cron: '30 2 * * *', tz: 'America/New_York', job: tick, input: 'night' }
    await mill.schedule('nightly', nightly)
    await mill.enqueue(tick, 'other')
    await mill.drain()
    await mill.advance('2d')
    const slots = [new Date('2030-01-01T07:30Z'), new Date('2030-01-02T07:30Z')]
    expect(seen.slice(1)).toEqual(
      slots.map((slot) => [
        'night',
        { name: 'nightly', slot },
        `schedule:nightly:${slot.toISOString()}`,
        slot,
      ]),
    )
    expect(seen[0]).toMatchObject({ 0: 'other', 1: undefined })
  })

  test('its jobs are those of the definition, with the options of the schedule', async () => {
    const mill = testMill({ jobs: [report] })
    const job = defineJob<{ user: string }>({
      name: 'mail',
      queue: 'mails',
      priority: 'high',
      maxAttempts: 7,
      key: ({ user }) => user,
      run: () => {},
    })
    const options = {
      queue: 'late',
      tags: ['daily'],
      metadata: { a: 1 },
      group: 'acme',
      timeout: '5m',
    } as const
    await mill.schedule('plain', { every: '1h', job, input: { user: 'ann' } })
    await mill.schedule('special', { every: '1h', job, input: { user: 'bob' }, options })
    await mill.advance('1h')
    const slot = '2030-01-01T01:00:00.000Z'
    expect(await mill.job(`schedule:plain:${slot}`).get()).toMatchObject({
      queue: 'mails',
      priority: 'high',
      maxAttempts: 7,
      input: { user: 'ann' },
      key: 'ann',
      state: 'pending',
    })
    expect(await mill.job(`schedule:special:${slot}`).get()).toMatchObject({
      queue: 'late',
      tags: ['daily'],
      metadata: { a: 1 },
      group: 'acme',
      key: 'bob',
    })
    const [record] = await storeOf(mill).get([`schedule:special:${slot}`])
    expect(record?.overrides).toBe('{"timeout":300000}')
  })

  test('several workers fire each slot once', async () => {
    const mill = testMill({ jobs: [report] })
    const handle = await hourly(mill, { every: '5s' })
    const workers = Array.from({ length: 3 }, () => mill.worker({ handleSignals: false }))
    await Promise.all(workers.map((worker) => worker.start()))
    for (let i = 0; i < 4; i++) await mill.clock.advance(5_000)
    expect((await firedHours(mill)).map((hours) => hours * 3_600)).toEqual([5, 10, 15, 20])
    expect((await handle.get())?.fired).toBe(4)
  })

  test('a worker that waits is woken by a new schedule and by a resumed one', async () => {
    const mill = realMill({ jobs: [report] })
    await mill.worker({ handleSignals: false, poll: '1h' }).start()
    const completed = () =>
      new Promise<MillraceEvents['completed']>((resolve) => {
        const off = mill.on('completed', (event) => {
          off()
          resolve(event)
        })
      })
    const first = completed()
    const handle = await mill.schedule('tick', { every: '1s', job: report, input })
    expect((await first).id).toMatch(/^schedule:tick:/)
    await handle.pause()
    const second = completed()
    await handle.resume()
    expect((await second).name).toBe('report')
  })

  test('a full queue takes them', async () => {
    const mill = testMill({ jobs: [report], queues: { default: { depth: { max: 1, overflow: 'reject' } } } })
    await mill.queue('default').pause()
    await mill.enqueue(report, { of: 'stock' })
    await expect(mill.enqueue(report, { of: 'stock' })).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    await hourly(mill, { catchUp: 'all' })
    await mill.advance('3h')
    expect(await firedHours(mill)).toEqual([1, 2, 3])
  })

  test('jitter puts the jobs off, and from, until and limit bound the slots', async () => {
    const mill = testMill({ jobs: [report] })
    await hourly(mill, { jitter: '30m', from: new Date(start + 2.5 * hour), limit: 3 })
    await mill.schedule('short', { every: '1h', job: report, input, until: new Date(start + 2 * hour) })
    await mill.advance('1d')
    expect(await firedHours(mill)).toEqual([2.5, 3.5, 4.5])
    expect(await firedHours(mill, 'short')).toEqual([1, 2])
    const jobs = await mill.enqueued(report)
    const delays = jobs
      .filter(({ id }) => id.startsWith('schedule:hourly:'))
      .map(({ id, startedAt }) => Number(startedAt) - Date.parse(id.slice('schedule:hourly:'.length)))
    expect(delays.every((delay) => delay >= 0 && delay < hour / 2)).toBe(true)
    expect(new Set(delays).size).toBe(3)
    for (const name of ['hourly', 'short']) {
      expect((await mill.schedule(name).get())?.next).toBeUndefined()
      expect(await mill.schedule(name).next(5)).toEqual([])
    }
  })
})

describe('what it shows', () => {
  test('all that was given, and what became of it', async () => {
    const mill = testMill({ jobs: [report] })
    const from = new Date(start)
    const until = new Date(start + 1000 * hour)
    const handle = await mill.schedule('daily', {
      cron: '@daily',
      tz: 'Europe/Berlin',
      job: report,
      input,
      catchUp: 'all',
      jitter: '1m',
      from,
      until,
      limit: 10,
      options: { queue: 'reports' },
    })
    await mill.advance('2d')
    const slot = new Date('2030-01-02T23:00Z')
    expect(await handle.get()).toEqual({
      name: 'daily',
      cron: '0 0 * * *',
      tz: 'Europe/Berlin',
      every: undefined,
      from,
      until,
      limit: 10,
      catchUp: 'all',
      jitter: 60_000,
      job: 'report',
      queue: 'reports',
      input,
      paused: false,
      next: new Date('2030-01-03T23:00Z'),
      last: slot,
      lastJob: `schedule:daily:${slot.toISOString()}`,
      fired: 2,
      createdAt: new Date(start),
      changedAt: new Date(start),
    })
    expect(await handle.next(20)).toHaveLength(8)
    expect(await handle.next(2)).toEqual([new Date('2030-01-03T23:00Z'), new Date('2030-01-04T23:00Z')])
  })

  test('a list, page by page', async () => {
    const mill = testMill({ jobs: [report] })
    for (const name of ['c', 'a', 'b']) await mill.schedule(name, { every: '1h', job: report, input })
    const first = await mill.schedules({ limit: 2 })
    expect(first.schedules.map(({ name }) => name)).toEqual(['a', 'b'])
    const rest = await mill.schedules({ limit: 2, cursor: first.cursor })
    expect(rest.schedules.map(({ name }) => name)).toEqual(['c'])
    expect(rest.cursor).toBeUndefined()
    await expect(mill.schedules({ limit: 0 })).rejects.toMatchObject({ field: 'limit' })
  })
})

describe('trouble', () => {
  test('a schedule that cannot be read is told and keeps no other back', async () => {
    const mill = testMill({ jobs: [report] })
    const errors: string[] = []
    mill.on('error', ({ during }) => errors.push(during))
    await mill.open()
    const damaged = { do: 'put', name: 'damaged', rule: '{', spec: '{}', revision: 'r' } as const
    await storeOf(mill).schedule([damaged])
    await hourly(mill, { every: '5s' })
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await mill.clock.advance(5_000)
    await worker.stop()
    expect(await firedHours(mill)).toEqual([5 / 3_600])
    expect(new Set(errors)).toEqual(new Set(["schedule 'damaged'"]))
  })

  test('a store that fails is told once, and what was due fires when it is back', async () => {
    const mill = testMill({ jobs: [report] })
    const errors: string[] = []
    mill.on('error', ({ during }) => errors.push(during))
    for (let i = 0; i < 5; i++) await mill.schedule(`s${i}`, { every: '5s', job: report, input })
    const store = storeOf(mill)
    const works = store.schedule
    store.schedule = () => Promise.reject(new MillraceError('STORE_FAILED', 'the disk is gone'))
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await mill.clock.advance(5_000)
    expect(errors).toEqual(['sweep'])
    store.schedule = works
    await mill.clock.advance(2_000)
    await worker.stop()
    expect(await mill.enqueued(report)).toHaveLength(5)
  })

  test('a job that nobody knows waits for a worker that does', async () => {
    const other = defineJob<null>({ name: 'other', run: () => {} })
    const mill = testMill({ jobs: [other] })
    await hourly(mill)
    await mill.advance('1h')
    expect(await firedHours(mill)).toEqual([1])
    expect(await mill.job('schedule:hourly:2030-01-01T01:00:00.000Z').state()).toBe('scheduled')
  })
})

describe('in tests', () => {
  test('a drain moves time for jobs and not for schedules, which fire on the way', async () => {
    const mill = testMill({ jobs: [report] })
    await hourly(mill)
    await mill.drain({ later: true })
    expect(mill.clock.now()).toBe(start)
    await mill.enqueue(report, { of: 'later' }, { delay: '3h' })
    await mill.drain({ later: true })
    expect(mill.clock.now()).toBe(start + 3 * hour)
    expect(await firedHours(mill)).toEqual([1, 2, 3])
  })

  // It is the drain that counts to a thousand; with a server in between that takes a minute.
  test.skipIf(isRemote)(
    'a drain that schedules keep busy for ever says so',
    async () => {
      const mill = testMill({ jobs: [report] })
      await mill.schedule('busy', { every: '1s', jitter: '1m', job: report, input })
      await mill.advance('1m')
      await expect(mill.drain({ later: true })).rejects.toThrow('use advance()')
    },
    60_000,
  )
})

import {
  defineJob,
  type EveryOptions,
  type FiringOptions,
  isMillraceError,
  MillraceError,
  type MillraceEvents,
  type SpanOptions,
} from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { realMill, storeOf, testMill } from './mill.js'

const hour = 3_600_000
const start = Date.parse('2030-01-01T00:00:00Z')

const report = defineJob<{ of: string }, string>({ name: 'report', run: ({ of }) => `report of ${of}` })
const input = { of: 'sales' }

/** The slots of all jobs that were ever fired, as hours from the start. */
async function firedHours(mill: TestMill, name = 'hourly'): Promise<number[]> {
  const jobs = await mill.enqueued(report)
  const slots = jobs.map(({ id }) => new RegExp(`^schedule:${name}:(.+)$`).exec(id)?.[1])
  return slots
    .filter((slot) => slot !== undefined)
    .map((slot) => (Date.parse(slot) - start) / hour)
    .sort((a, b) => a - b)
}

function hourly(
  mill: TestMill,
  options: Partial<EveryOptions & SpanOptions & FiringOptions<{ of: string }>> = {},
) {
  return mill.schedule('hourly', { every: '1h', job: report, input, ...options })
}

/** Time passes while no worker runs. */
function sleep(mill: TestMill, ms: number): Promise<void> {
  return mill.clock.advance(ms)
}

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

describe('catching up', () => {
  async function afterDowntime(catchUp: 'skip' | 'last' | 'all' | undefined, downMs: number) {
    const mill = testMill({ jobs: [report] })
    const missed: MillraceEvents['missed'][] = []
    mill.on('missed', (event) => missed.push(event))
    await hourly(mill, catchUp === undefined ? {} : { catchUp })
    await mill.advance('1h')
    await sleep(mill, downMs)
    await mill.drain()
    return { hours: await firedHours(mill), missed }
  }

  test('all fires each of them, however many', async () => {
    expect(await afterDowntime('all', 120 * hour)).toEqual({
      hours: Array.from({ length: 121 }, (_, i) => i + 1),
      missed: [],
    })
  })

  test.for(['last', undefined] as const)('%s fires the newest', async (catchUp) => {
    const since = new Date(start + 2 * hour)
    expect(await afterDowntime(catchUp, 5.5 * hour)).toEqual({
      hours: [1, 6],
      missed: [{ schedule: 'hourly', count: 4, since }],
    })
  })

  test('skip fires none, unless it is at most a minute late', async () => {
    const since = new Date(start + 2 * hour)
    expect(await afterDowntime('skip', 5.5 * hour)).toEqual({
      hours: [1],
      missed: [{ schedule: 'hourly', count: 5, since }],
    })
    expect(await afterDowntime('skip', hour + 60_000)).toEqual({ hours: [1, 2], missed: [] })
  })

  test('slots since it was put count, also when nobody told it its first one', async () => {
    const mill = testMill({ jobs: [report] })
    const store = storeOf(mill)
    await hourly(mill, { catchUp: 'all' })
    const [record] = (await store.schedules({ limit: 1 })).schedules
    await store.schedule([{ do: 'remove', name: 'hourly' }])
    // As if the process that put it had been lost at once.
    const { name, rule, spec } = record as NonNullable<typeof record>
    await store.schedule([{ do: 'put', name, rule, spec, revision: 'r' }])
    await sleep(mill, 3 * hour)
    await mill.drain()
    expect(await firedHours(mill)).toEqual([1, 2, 3])
  })

  test('a clock set forward misses slots, one set back fires none again', async () => {
    for (const catchUp of ['all', 'last'] as const) {
      const mill = testMill({ jobs: [report] })
      await hourly(mill, { catchUp })
      await mill.advance('2h')
      mill.clock.jump(3 * hour)
      await mill.drain()
      const jumped = catchUp === 'all' ? [1, 2, 3, 4, 5] : [1, 2, 5]
      expect(await firedHours(mill)).toEqual(jumped)
      mill.clock.jump(-4 * hour)
      await mill.drain()
      await mill.schedule('hourly').pause()
      await mill.schedule('hourly').resume()
      // Where the rows of fired jobs are gone, only the schedule knows.
      await mill.queue('default').clear({ states: ['completed'] })
      await mill.advance('4h')
      expect(await firedHours(mill)).toEqual([])
      await mill.advance('1h')
      expect(await firedHours(mill)).toEqual([6])
    }
  })
})

describe('a clock that is set back far', () => {
  const day = 24 * hour
  const year = 365 * day

  /** The clock is off for as long as a worker looks. */
  async function wrongBy(mill: TestMill, ms: number): Promise<void> {
    mill.clock.jump(ms)
    await mill.drain()
    mill.clock.jump(-ms)
  }

  /** Days on which it fired, from the start. */
  function daily(options: Partial<SpanOptions & FiringOptions<null>> = {}, cron = '0 12 * * *') {
    const days: number[] = []
    const run = () => void days.push(Math.floor((mill.clock.now() - start) / day))
    const job = defineJob<null>({ name: 'daily', retain: 0, run })
    const mill = testMill({ jobs: [job] })
    const errors: string[] = []
    mill.on('error', ({ error }) => errors.push(String((error as Error).message)))
    const put = (rule = cron) => mill.schedule('daily', { cron: rule, job, input: null, ...options })
    return { mill, days, errors, put }
  }

  test.for(['last', 'skip', 'all'] as const)('was ahead for a minute: it goes on (%s)', async (catchUp) => {
    const { mill, days, errors, put } = daily({ catchUp })
    const handle = await put()
    await mill.advance('3d')
    await wrongBy(mill, year)
    const before = days.splice(0).length
    expect(before).toBe({ last: 4, skip: 3, all: 3 + 365 }[catchUp])
    await mill.advance('3d')
    expect(days).toEqual([3, 4, 5])
    expect(errors).toEqual([
      expect.stringMatching(
        /^schedule 'daily' was told its next slot, 2031-.* The schedule goes on from now/,
      ),
    ])
    expect((await handle.get())?.next).toEqual(new Date(start + 6.5 * day))
  })

  test('was ahead when it was put, paused, changed or came to its end: it goes on', async () => {
    for (const act of ['put', 'pause', 'rule', 'until'] as const) {
      const options = act === 'until' ? { until: new Date(start + 30 * day) } : {}
      const { mill, days, put } = daily(options)
      if (act === 'put') mill.clock.jump(year)
      const handle = await put()
      if (act === 'put') mill.clock.jump(-year)
      else await wrongBy(mill, year)
      days.length = 0
      if (act === 'pause') {
        await handle.pause()
        await handle.resume()
      }
      if (act === 'rule') await put('0 13 * * *')
      await mill.advance('2d')
      expect(days, act).toEqual([0, 1])
      await mill.close()
    }
  })

  test('is behind for a minute: nothing is lost, and nothing fires again', async () => {
    for (const catchUp of ['last', 'skip', 'all'] as const) {
      for (const fired of [0, 3]) {
        const { mill, days, put } = daily({ catchUp })
        await put()
        await mill.advance(`${fired}d`)
        await wrongBy(mill, -year)
        await wrongBy(mill, -60 * year)
        await mill.drain()
        await mill.advance('2d')
        expect(days, `${catchUp} after ${fired}`).toEqual(Array.from({ length: fired + 2 }, (_, i) => i))
        await mill.close()
      }
    }
  })

  test('a yearly slot that has fired does not fire again', async () => {
    const { mill, days, errors, put } = daily({}, '0 12 1 1 *')
    await put()
    await mill.advance('1d')
    mill.clock.jump(-2 * day)
    await mill.advance('10d')
    expect([days, errors]).toEqual([[0], []])
  })

  test('what fired too soon counts for its limit', async () => {
    const { mill, days, put } = daily({ limit: 3 })
    await put()
    await mill.advance('1d')
    await wrongBy(mill, year)
    days.length = 0
    await mill.advance('5d')
    expect(days).toEqual([1])
  })
})

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

describe('what is refused, before anything is written', () => {
  const strict = defineJob({ name: 'strict', input: z.object({ n: z.number() }), run: () => {} })
  const debounced = defineJob<null>({
    name: 'debounced',
    dedupe: { key: () => 'k', mode: 'debounce', window: '1m' },
    run: () => {},
  })
  const ok = { every: '1h', job: report, input }
  const cases: [string, string, object, object][] = [
    ['an empty name', '', ok, { code: 'INVALID_OPTION', field: 'schedule' }],
    ['a name with a colon', 'a:b', ok, { code: 'INVALID_OPTION', field: 'schedule' }],
    ['a long name', 'x'.repeat(91), ok, { code: 'INVALID_OPTION', field: 'schedule', limit: 90 }],
    ['a misspelt option', 's', { ...ok, catchup: 'all' }, { code: 'INVALID_OPTION', field: 'catchup' }],
    ['another catchUp', 's', { ...ok, catchUp: 'some' }, { code: 'INVALID_OPTION', field: 'catchUp' }],
    ['a wrong jitter', 's', { ...ok, jitter: -1 }, { code: 'INVALID_DELAY', field: 'jitter' }],
    ['a limit of none', 's', { ...ok, limit: 0 }, { code: 'INVALID_OPTION', field: 'limit' }],
    ['an unknown zone', 's', { ...ok, every: undefined, cron: '* * * * *', tz: 'X/Y' }, { field: 'tz' }],
    ['six fields', 's', { ...ok, every: undefined, cron: '* * * * * *' }, { field: 'cron' }],
    ['no definition', 's', { ...ok, job: { name: 'report' } }, { code: 'INVALID_OPTION', field: 'job' }],
    [
      'an input its schema refuses',
      's',
      { ...ok, job: strict, input: { n: 'x' } },
      { code: 'INVALID_INPUT' },
    ],
    ['an input that cannot be kept', 's', { ...ok, input: () => {} }, { code: 'PAYLOAD_NOT_SERIALISABLE' }],
    ['an id', 's', { ...ok, options: { id: 'x' } }, { code: 'INVALID_OPTION', field: 'options.id' }],
    ['a delay', 's', { ...ok, options: { delay: 5 } }, { code: 'INVALID_OPTION', field: 'options.delay' }],
    ['a wrong queue', 's', { ...ok, options: { queue: '' } }, { code: 'INVALID_OPTION', field: 'queue' }],
    [
      'jitter of jobs that decide themselves when they start',
      's',
      { ...ok, job: debounced, input: null, jitter: '1m' },
      { code: 'INVALID_OPTION', field: 'dedupe.mode' },
    ],
  ]
  test.for(cases)('%s', async ([, name, options, expected]) => {
    const mill = testMill()
    const error = await mill.schedule(name, options as never).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(isMillraceError(error)).toBe(true)
    expect(error).toMatchObject(expected)
    expect((await mill.schedules()).schedules).toEqual([])
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

  test('a drain that schedules keep busy for ever says so', async () => {
    const mill = testMill({ jobs: [report] })
    await mill.schedule('busy', { every: '1s', jitter: '1m', job: report, input })
    await mill.advance('1m')
    await expect(mill.drain({ later: true })).rejects.toThrow('use advance()')
  }, 60_000)
})

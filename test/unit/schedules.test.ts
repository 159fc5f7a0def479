import { isMillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { planAdvance, type ScheduleSpec, slotJobId, slotOfJob } from '../../src/core/firing.js'
import {
  compileRecurrence,
  newestSlot,
  type Recurrence,
  type RecurrenceOptions,
  slotAfter,
  slotsAfter,
} from '../../src/core/recurrence.js'
import type { DueSchedule } from '../../src/core/schedule.js'
import { Random } from '../chaos/random.js'
import { enumerate, Zone } from './calendar.js'

const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
const random = new Random(seed)

describe('rules', () => {
  const bad: [string, RecurrenceOptions, string, string][] = [
    ['neither', {} as never, 'cron', 'either cron'],
    ['both', { cron: '* * * * *', every: '1m' as never }, 'cron', 'either cron'],
    ['six fields', { cron: '0 0 0 * * *' }, 'cron', "for seconds use every: '10s'"],
    ['seven fields', { cron: '0 0 0 1 1 * 2030' }, 'cron', 'five fields'],
    ['four fields', { cron: '0 0 * *' }, 'cron', 'five fields'],
    ['nothing', { cron: '' }, 'cron', 'five fields'],
    ['no text', { cron: 5 as never }, 'cron', 'five fields'],
    ['a date', { cron: '2030-01-01T00:00:00' }, 'cron', 'five fields'],
    ['an unknown nickname', { cron: '@reboot' }, 'cron', '@daily'],
    ['a day that never comes', { cron: '0 0 30 2 *' }, 'cron', 'there is no such date'],
    ['a day that never comes, in other months', { cron: '*/5 * 31 4,6 *' }, 'cron', 'there is no such date'],
    ['steps of nothing', { cron: '*/0 * * * *' }, 'cron', 'can be read'],
    ['a minute too far', { cron: '60 * * * *' }, 'cron', 'can be read'],
    ['words', { cron: 'a b c d e' }, 'cron', 'can be read'],
    ['a question', { cron: '? * * * *' }, 'cron', "use '*'"],
    ['an unknown zone', { cron: '* * * * *', tz: 'Mars/Phobos' }, 'tz', 'IANA time zone'],
    ['an offset', { cron: '* * * * *', tz: '+02:00' }, 'tz', 'IANA time zone'],
    ['an empty zone', { cron: '* * * * *', tz: '' }, 'tz', 'IANA time zone'],
    ['a zone for a duration', { every: '1h', tz: 'UTC' as never }, 'tz', 'needs cron'],
    ['less than a second', { every: 999 }, 'every', 'at least 1000 ms'],
    ['no duration', { every: 'soon' }, 'every', 'duration'],
    ['an endless duration', { every: Number.POSITIVE_INFINITY }, 'every', 'duration'],
    ['an invalid date', { every: '1h', from: new Date('never') }, 'from', 'valid Date'],
    ['no date', { every: '1h', until: 5 as never }, 'until', 'valid Date'],
    [
      'an end before the start',
      { every: '1h', from: new Date(2), until: new Date(1) },
      'until',
      'not before',
    ],
  ]
  test.for(bad)('%s is refused', ([, options, field, says]) => {
    const error = thrownBy(() => compileRecurrence(options))
    expect(isMillraceError(error)).toBe(true)
    expect(error).toMatchObject({ field, message: expect.stringContaining(says) })
  })

  test('an expression that never fires is found out at once', () => {
    const start = performance.now()
    expect(() => compileRecurrence({ cron: '59 23 31 2,4,6,9,11 *', tz: 'Europe/Berlin' })).toThrow()
    expect(performance.now() - start).toBeLessThan(2_000)
  })

  test('an expression has one form', () => {
    expect(compileRecurrence({ cron: '  0   3 * *  MON-FRI ' })).toEqual({
      cron: '0 3 * * MON-FRI',
      tz: 'UTC',
    })
    expect(compileRecurrence({ cron: '@daily', tz: 'Asia/Tokyo' })).toEqual({
      cron: '0 0 * * *',
      tz: 'Asia/Tokyo',
    })
  })
})

describe('slots', () => {
  const cases: [string, string, string, string, string[]][] = [
    [
      'a time of day that the clock leaves out fires right after',
      '30 2 * * *',
      'America/New_York',
      '2030-03-09T12:00Z',
      ['2030-03-10T07:00Z', '2030-03-11T06:30Z'],
    ],
    [
      'a time of day that the clock shows twice fires the first time',
      '30 1 * * *',
      'America/New_York',
      '2030-11-02T12:00Z',
      ['2030-11-03T05:30Z', '2030-11-04T06:30Z'],
    ],
    [
      'every half hour of that hour fires both times',
      '*/30 1 * * *',
      'America/New_York',
      '2030-11-02T12:00Z',
      [
        '2030-11-03T05:00Z',
        '2030-11-03T05:30Z',
        '2030-11-03T06:00Z',
        '2030-11-03T06:30Z',
        '2030-11-04T06:00Z',
      ],
    ],
    [
      'every half hour of an hour that is left out does not fire that day',
      '*/30 2 * * *',
      'America/New_York',
      '2030-03-09T12:00Z',
      ['2030-03-11T06:00Z'],
    ],
    [
      'every hour fires each hour, whatever the clock does',
      '0 * * * *',
      'Europe/Berlin',
      '2030-03-31T00:00Z',
      ['2030-03-31T01:00Z', '2030-03-31T02:00Z', '2030-03-31T03:00Z'],
    ],
    [
      'midnight, where that is left out',
      '0 0 * * *',
      'America/Santiago',
      '2030-09-07T12:00Z',
      ['2030-09-08T04:00Z', '2030-09-09T03:00Z'],
    ],
    [
      'midnight, where that is left out, in another zone',
      '0 0 * * *',
      'Africa/Cairo',
      '2030-04-25T12:00Z',
      ['2030-04-25T22:00Z', '2030-04-26T21:00Z'],
    ],
    [
      'midnight, where that comes twice',
      '0 0 * * *',
      'America/Havana',
      '2030-11-02T12:00Z',
      ['2030-11-03T04:00Z', '2030-11-04T05:00Z'],
    ],
    [
      'the last hour of a day, where the clock leaves it out',
      '30 23 * * *',
      'America/Nuuk',
      '2030-03-30T12:00Z',
      ['2030-03-31T01:00Z', '2030-04-01T00:30Z'],
    ],
    [
      'half an hour that is left out',
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2030-10-05T12:00Z',
      ['2030-10-05T15:30Z', '2030-10-06T15:15Z'],
    ],
  ]
  test.for(cases)('%s', ([, cron, tz, after, expected]) => {
    const slots = slotsAfter({ cron, tz }, Date.parse(after), expected.length, Number.POSITIVE_INFINITY)
    expect(slots).toEqual(expected.map((time) => Date.parse(time)))
  })

  test('from whatever moment they are asked for, they are the same', () => {
    const start = Date.UTC(2030, 0, 1)
    const end = Date.UTC(2031, 0, 1)
    for (const name of ['America/New_York', 'America/Havana', 'America/Nuuk', 'Antarctica/Troll']) {
      const zone = new Zone(name, start, end)
      for (const cron of ['30 1 * * *', '0 0 * * *', '30 23 * * *', '*/20 * * * *', '10 0,1,2,23 * * *']) {
        const all = enumerate(cron, zone, start, end)
        for (const change of zone.changes) {
          for (let i = 0; i < 40; i++) {
            const time = change + random.integer(-90_000_000, 90_000_000)
            const next = all.find((slot) => slot > time)
            expect(slotAfter({ cron, tz: name }, time), `seed ${seed}: ${cron} ${name} ${time}`).toBe(next)
          }
        }
      }
    }
  })

  test('every: multiples from the epoch, or from `from`', () => {
    expect(slotsAfter({ every: 1_000 }, 1_999, 3, 10 ** 9)).toEqual([2_000, 3_000, 4_000])
    expect(slotsAfter({ every: 1_000, from: 5_500 }, 1_000, 3, 10 ** 9)).toEqual([5_500, 6_500, 7_500])
    expect(slotsAfter({ every: 1_000, from: 5_500 }, 6_500, 1, 10 ** 9)).toEqual([7_500])
    expect(slotsAfter({ every: 1_000, until: 4_000 }, 1_999, 9, 10 ** 9)).toEqual([2_000, 3_000, 4_000])
    expect(slotsAfter({ every: 1_000 }, 1_999, 9, 3_999)).toEqual([2_000, 3_000])
  })

  test('the first and the last time belong to it', () => {
    const rule = {
      cron: '0 0 * * *',
      tz: 'UTC',
      from: Date.UTC(2030, 0, 2),
      until: Date.UTC(2030, 0, 3),
    }
    expect(slotsAfter(rule, 0, 9, Number.POSITIVE_INFINITY)).toEqual([rule.from, rule.until])
  })

  test('the newest is found among millions', () => {
    const year = Date.UTC(2031, 0, 1)
    const rules: Recurrence[] = [
      { every: 1_000 },
      { every: 86_400_000 },
      { cron: '* * * * *', tz: 'UTC' },
      { cron: '*/5 3 * * 1', tz: 'America/Havana' },
      { cron: '0 0 1 1 *', tz: 'UTC' },
      { cron: '30 2 * * *', tz: 'America/New_York', until: Date.UTC(2030, 5, 1) },
    ]
    for (const rule of rules) {
      const first = slotAfter(rule, Date.UTC(2029, 11, 31)) as number
      for (let i = 0; i < 20; i++) {
        const end = random.integer(first, year)
        const { slot, next } = newestSlot(rule, first, end)
        const told = `seed ${seed}: ${JSON.stringify(rule)} up to ${end}`
        expect(slot, told).toBeLessThanOrEqual(end)
        expect(next, told).toBe(slotAfter(rule, slot))
        expect(next ?? Number.POSITIVE_INFINITY, told).toBeGreaterThan(end)
        expect(slotAfter(rule, slot - 1), told).toBe(slot)
      }
    }
  })
})

describe('what a due schedule fires', () => {
  const minute = 60_000

  test('all: each slot, a bounded number at once, then on from there', () => {
    const first = due({ catchUp: 'all' }, { now: 250 * 1_000 })
    const { change, missed } = planAdvance(first)
    expect(change.jobs).toHaveLength(100)
    expect(change.jobs[0]?.id).toBe(slotJobId('tick', 1_000))
    expect(change).toMatchObject({ from: 1_000, lastSlot: 100_000, to: 101_000, revision: 'r' })
    expect(missed).toBeUndefined()
    const rest = planAdvance({ ...first, slot: 201_000 })
    expect(rest.change.jobs).toHaveLength(50)
    expect(rest.change.to).toBe(251_000)
  })

  test('last: the newest, and the others are missed', () => {
    const { change, missed } = planAdvance(due({ catchUp: 'last' }, { now: 10 * minute + 1 }))
    expect(change.jobs.map(({ id }) => id)).toEqual([slotJobId('tick', 10 * minute)])
    expect(change.to).toBe(10 * minute + 1_000)
    expect(missed).toEqual({ since: 1_000, before: 10 * minute })
  })

  test('skip: none, unless it is at most a minute late', () => {
    const rule = { every: 3_600_000 }
    const slot = 3_600_000
    const late = planAdvance(due({ catchUp: 'skip' }, { now: slot + minute + 1, slot }, rule))
    expect(late.change).toMatchObject({ jobs: [], lastSlot: undefined, to: 2 * slot })
    expect(late.missed).toEqual({ since: slot, before: slot + minute + 1 })
    const punctual = planAdvance(due({ catchUp: 'skip' }, { now: slot + minute, slot }, rule))
    expect(punctual.change.jobs).toHaveLength(1)
    expect(punctual.missed).toBeUndefined()
  })

  test('no more than the limit, whatever was missed', () => {
    const { change } = planAdvance(due({ catchUp: 'all', limit: 5 }, { now: minute, fired: 2 }))
    expect(change.jobs).toHaveLength(3)
    expect(change.to).toBeUndefined()
    const fresh = planAdvance(due({ limit: 2 }, { fired: 2, slot: undefined, fresh: true }))
    expect(fresh.change).toMatchObject({ from: undefined, to: undefined, jobs: [] })
  })

  test('a fresh one is told its first slot, after all that ever fired', () => {
    const fresh = { slot: undefined, fresh: true, since: 5_000 }
    expect(planAdvance(due({}, { ...fresh, now: 90_000 })).change).toMatchObject({ to: 6_000, jobs: [] })
    expect(planAdvance(due({}, { ...fresh, lastSlot: 60_000, now: 5_500 })).change.to).toBe(61_000)
  })

  test('jitter puts each slot off by its own time, always the same', () => {
    const delays = Array.from({ length: 500 }, (_, i) => {
      const slot = (i + 1) * 1_000
      const plan = () => planAdvance(due({ jitter: 10_000 }, { slot, now: slot })).change.jobs[0]?.runAt
      expect(plan()).toBe(plan())
      return (plan() ?? 0) - slot
    })
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...delays)).toBeLessThan(10_000)
    for (let tenth = 0; tenth < 10; tenth++) {
      const share = delays.filter((delay) => Math.floor(delay / 1_000) === tenth).length / 500
      expect(share, `tenth ${tenth}`).toBeGreaterThan(0.04)
    }
  })

  test('the id of a job tells its slot', () => {
    const slot = Date.UTC(2030, 0, 1, 2, 30)
    expect(slotOfJob(slotJobId('reports/nightly', slot))).toEqual({
      name: 'reports/nightly',
      slot: new Date(slot),
    })
    for (const id of ['schedule:nightly:today', 'schedule:nightly', 'nightly:2030-01-01T02:30:00.000Z'])
      expect(slotOfJob(id)).toBeUndefined()
  })

  function due(
    spec: Partial<ScheduleSpec>,
    fields: Partial<DueSchedule>,
    rule: Recurrence = { every: 1_000 },
  ): DueSchedule {
    return {
      name: 'tick',
      rule: JSON.stringify(rule),
      spec: JSON.stringify({ catchUp: 'last', jitter: 0, job: { name: 'tick', input: 'null' }, ...spec }),
      revision: 'r',
      paused: false,
      slot: 1_000,
      fresh: false,
      since: 0,
      ahead: undefined,
      fired: 0,
      lastSlot: undefined,
      lastJob: undefined,
      createdAt: 0,
      changedAt: 0,
      now: 1_000,
      ...fields,
    }
  }
})

function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

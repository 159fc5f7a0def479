/** The judge of event stores must be able to convict: each test hands it one crime and expects its name. */
import { describe, expect, test } from 'vitest'
import { digests, type KeptEvent, type Sighting, type Total } from '../chaos/events/book.js'
import { checkEvents } from '../chaos/events/checker.js'
import type { EventsEvidence } from '../chaos/events/evidence.js'
import type { EventsEvent, TriedAppend } from '../chaos/events/history.js'
import { describeLags, lagsOf } from '../chaos/events/lags.js'

const first: TriedAppend = { id: 'w.1', stream: 'a', expected: 'none', size: 2 }
const second: TriedAppend = { id: 'w.2', stream: 'b', expected: 'any', size: 1 }
const third: TriedAppend = { id: 'v.1', stream: 'a', expected: 2, size: 1 }
const late: TriedAppend = { id: 'v.2', stream: 'a', expected: 2, size: 1 }

/** Positions 4 and 6 were rolled back. */
const kept: readonly KeptEvent[] = [
  keptEvent(1, 'a', 1, 'w.1:0'),
  keptEvent(2, 'a', 2, 'w.1:1'),
  keptEvent(3, 'b', 1, 'w.2:0', 'ordered'),
  keptEvent(5, 'a', 3, 'v.1:0'),
]

const appends: readonly EventsEvent[] = [
  { e: 'tried', t: 1, appends: [first, second] },
  committed(2, [first, 2, 2], [second, 1, 3]),
  { e: 'tried', t: 3, appends: [third, late] },
  { e: 'refused', t: 4, id: late.id, actual: 3 },
  { e: 'undone', t: 5, ids: [late.id] },
  committed(6, [third, 3, 5]),
]

const followed: EventsEvent = {
  e: 'seen',
  t: 9,
  reader: 'follower',
  events: kept.map(({ position, key }) => [position, key, 8]),
}

const right: EventsEvidence = {
  events: [...appends, ...leased('x', 10, 20, true), followed],
  kept,
  sightings: kept.map((event) => sighting(event)),
  models: [{ name: 'totals', generation: 1, table: 'totals_1', totals: foldOf(kept) }],
  followers: ['follower'],
  jobs: ['w.2:0'],
  tables: ['totals_1'],
  losses: [],
  endedAt: 100_000,
  drainedAfterMs: 10,
  limits: { drainMs: 1_000, recoveryMs: 500 },
  mayComplain: false,
}

test('a run without a fault is right', () => {
  expect(checkEvents(right)).toEqual({
    kept: 4,
    doubtful: 0,
    lost: 0,
    again: 0,
    staleAttempts: 0,
    refusedStale: 0,
    recoveries: [],
    violations: [],
  })
})

describe('the log', () => {
  test('a commit that nobody heard of is counted, and no crime', () => {
    const events = right.events.filter((event) => event !== appends[5])
    expect(checkEvents({ ...right, events })).toMatchObject({ doubtful: 1, violations: [] })
  })

  test('what was acknowledged and is gone is I1, what was rolled back or came from nowhere I2', () => {
    expect(crimes({ kept: kept.slice(0, 3) })).toContain('I1 1 acknowledged appends are gone: v.1 to a at 2')
    expect(checkEvents({ ...right, kept: kept.slice(0, 3) }).lost).toBe(1)
    const events = [...right.events, { e: 'undone', t: 7, ids: ['v.1'] } as const]
    expect(crimes({ events })).toEqual(['I2 1 appends are there that were undone: v.1 to a at 2'])
    const strange = [...kept, keptEvent(7, 'b', 2, 'z.1:0')]
    expect(crimes({ kept: strange })).toContain('I2 1 events that nobody appended, or twice: z.1:0')
    const twice = [...kept, keptEvent(7, 'b', 2, 'w.2:0')]
    expect(crimes({ kept: twice })).toContain('I2 1 events that nobody appended, or twice: w.2:0')
  })

  test('a gap in the versions of a stream, and one that does not follow the positions, are I12', () => {
    const gap = kept.map((event) => (event.position === 5 ? { ...event, version: 4 } : event))
    expect(crimes({ kept: gap })).toContain('I12 1 events are not the next of their stream: a@4 after 2')
    const crossed = kept.map((event) =>
      event.stream === 'a' ? { ...event, version: 4 - event.version } : event,
    )
    expect(crimes({ kept: crossed })[0]).toMatch(/^I12 3 events are not the next of their stream/)
  })

  test('an append that is there in part, or not where its caller was told, is I12', () => {
    const half = kept.filter(({ position }) => position !== 2)
    expect(crimes({ kept: half })).toContain('I12 1 appends are there in part, or torn: w.1 to a at none')
    const moved = kept.map((event) => (event.position === 5 ? { ...event, position: 7 } : event))
    expect(crimes({ kept: moved })).toContain(
      'I12 1 appends are not where the caller was told: v.1 to a at 2',
    )
  })

  test('one that met another version than it expected, and one that was refused for nothing, are I12', () => {
    const events = replaced(third, { ...third, expected: 1 })
    expect(crimes({ events })).toEqual([
      'I12 1 appends met another version than they expected: v.1 to a at 1',
    ])
    const refused = right.events.map((event) => (event.e === 'refused' ? { ...event, actual: 2 } : event))
    expect(crimes({ events: refused })).toEqual([
      'I12 1 appends were refused that met what they expected: v.2 to a at 2',
    ])
  })

  test('two winners of one version are I12', () => {
    const events = [...right.events, committed(7, [late, 3, 6])]
    expect(crimes({ events })).toContain('I12 1 expected versions have several winners: a at 2')
  })
})

describe('those who read', () => {
  test('one that follows and skips, repeats, or goes back is I12', () => {
    const sees = (...positions: number[]) => crimes({ events: seenBy(positions) })
    expect(sees(1, 3, 5)).toEqual(['I12 1 events were skipped by follower: 2'])
    expect(sees(1, 2, 2, 3, 5)).toEqual(['I12 1 events came to follower again: 2'])
    expect(sees(1, 3, 2, 5)).toEqual(['I12 1 events came to follower out of order: 2 after 3'])
    expect(checkEvents({ ...right, events: seenBy([1, 5]) }).lost).toBe(2)
  })

  test('an event that is another one than the log has there is I12', () => {
    const events = right.events.map((event) =>
      event === followed
        ? { ...followed, events: [...followed.events.slice(0, 3), [5, 'v.9:0', 8] as const] }
        : event,
    )
    expect(crimes({ events })).toEqual([
      'I12 1 events came to follower that are not in the log: v.9:0 at 5, where v.1:0 is',
    ])
  })

  test('a projection sees each stream in its order, each event once', () => {
    const seen = right.sightings
    const [one, two, three, four] = seen as [Sighting, Sighting, Sighting, Sighting]
    expect(crimes({ sightings: [three, one, two, four] })).toEqual([])
    expect(crimes({ sightings: [two, one, three, four] })).toEqual([
      'I12 1 events came to totals 1 out of order: 1 after 2',
    ])
    expect(crimes({ sightings: [...seen, one] })).toEqual(['I12 1 events came to totals 1 again: 1'])
    expect(checkEvents({ ...right, sightings: [...seen, one] }).again).toBe(1)
    expect(crimes({ sightings: [one, two, three] })).toEqual(['I12 1 events were skipped by totals 1: 5'])
    expect(crimes({ sightings: [] })).toEqual(['I12 4 events were skipped by totals 1: 1, 2, 3, 5'])
  })

  test('a generation that was replaced has no gaps either', () => {
    const models = right.models.map((model) => ({ ...model, generation: 2, table: 'totals_2' }))
    const tables = ['totals_2']
    const next = kept.map((event) => sighting(event, 2))
    const hadSeen = (...positions: number[]) =>
      crimes({
        models,
        tables,
        sightings: [...right.sightings.filter(({ position }) => positions.includes(position)), ...next],
      })
    expect(hadSeen(1, 2)).toEqual([])
    expect(hadSeen(1, 5)).toEqual(['I12 1 events were skipped by totals 1: 2'])
  })

  test('a read model that is not what its events come to is I12', () => {
    const off = (change: Partial<Total>) =>
      right.models.map((model) => ({
        ...model,
        totals: model.totals.map((total) => (total.stream === 'a' ? { ...total, ...change } : total)),
      }))
    for (const change of [{ count: 4 }, { sum: 7 }, { digest: 7 }, { version: 2 }])
      expect(crimes({ models: off(change) })).toEqual([
        'I12 1 streams are not what their events come to in totals_1: a',
      ])
    const missing = right.models.map((model) => ({ ...model, totals: model.totals.slice(1) }))
    expect(crimes({ models: missing })).toHaveLength(1)
    const unknown = { stream: 'z', count: 1, sum: 1, digest: 1, version: 1 }
    const more = right.models.map((model) => ({ ...model, totals: [...model.totals, unknown] }))
    expect(crimes({ models: more })).toHaveLength(1)
  })

  test('tables that are left behind, or are not there, are I12', () => {
    expect(crimes({ tables: ['totals_1', 'totals_2'] })).toEqual(['I12 1 tables are left behind: totals_2'])
    expect(crimes({ tables: [] })).toEqual(['I12 1 live tables are gone: totals_1'])
  })

  test('each event that leads to a job has one', () => {
    expect(crimes({ jobs: [] })).toEqual(['I12 1 events have no job: w.2:0'])
    expect(crimes({ jobs: ['w.2:0', 'w.2:0'] })).toEqual(['I12 1 events have several jobs: w.2:0'])
    expect(crimes({ jobs: ['w.2:0', 'w.1:0'] })).toEqual(['I12 1 jobs have no event: w.1:0'])
    expect(crimes({ jobs: undefined })).toEqual([])
  })
})

describe('workers', () => {
  const other = leased('y', 30, 40, true)

  test('what is written under a lease that another has had must be refused', () => {
    const zombie = (result: 'advanced' | 'lost') => withEvents([...other, ...moved('x', 50, 3, result)])
    expect(checkEvents(zombie('lost'))).toMatchObject({ staleAttempts: 1, refusedStale: 1, violations: [] })
    const caught = checkEvents(zombie('advanced'))
    expect(caught).toMatchObject({ staleAttempts: 1, refusedStale: 0 })
    expect(namesOf(caught.violations)).toContain('I3 1 stale checkpoints were accepted: totals 1 0 to 3 by x')
  })

  test('what was tried before the other took the part is none of its business', () => {
    const before = withEvents([...moved('x', 25, 5, 'advanced'), ...other])
    expect(checkEvents(before)).toMatchObject({ staleAttempts: 0, violations: [] })
  })

  test('a checkpoint that goes back is I12, unless the answer came late', () => {
    const back = { ...held('z', 60, 2), asked: 55 }
    expect(namesOf(checkEvents(withEvents([back])).violations)).toEqual([
      'I12 1 checkpoints went back: totals 1 0 from 5 to 2',
    ])
    expect(checkEvents(withEvents([{ ...back, asked: 15 }])).violations).toEqual([])
  })

  test('the parts of a lost process are another’s in time, or it is I13', () => {
    const lost = (t: number, next: readonly EventsEvent[]): EventsEvidence => ({
      ...right,
      events: [...appends, followed, ...leased('x', 10, 20, false), ...next],
      losses: [{ name: 'x', t }],
    })
    expect(checkEvents(lost(25, other))).toMatchObject({ recoveries: [5], violations: [] })
    const left = 'I13 1 parts of lost processes were not another’s within 500 ms: totals 1 0 of x'
    expect(namesOf(checkEvents(lost(25, [])).violations)).toEqual([left])
    expect(namesOf(checkEvents(lost(25, leased('y', 600, 610, true))).violations)).toEqual([left])
    expect(checkEvents({ ...lost(25, []), endedAt: 400 }).violations, 'nobody had the time').toEqual([])
    expect(checkEvents({ ...right, losses: [{ name: 'x', t: 25 }] }).violations, 'given back').toEqual([])
  })

  test('what is not seen in time is I13, and an error that no fault explains is one', () => {
    expect(crimes({ drainedAfterMs: undefined })).toEqual([
      'I13 somebody has not seen everything after 1000 ms',
    ])
    const error: EventsEvent = { e: 'error', t: 1, by: 'x', code: 'C', during: 'd', message: 'm' }
    const shown = withEvents([error])
    expect(namesOf(checkEvents(shown).violations)).toEqual(['errors 1 errors were shown: x d: m'])
    expect(checkEvents({ ...shown, mayComplain: true }).violations).toEqual([])
  })
})

test('how far behind readers are, by the moment that the commit was asked for', () => {
  const lags = lagsOf(right.events, kept, ['follower', 'nobody'])
  expect(lags).toEqual([
    { reader: 'follower', seen: 4, ms: [3, 7, 7, 7] },
    { reader: 'nobody', seen: 0, ms: [] },
  ])
  expect(describeLags(lags)).toBe('follower 7/7/7 of 4, nobody -/-/- of 0')
})

function crimes(change: Partial<EventsEvidence>): string[] {
  return namesOf(checkEvents({ ...right, ...change }).violations)
}

function namesOf(violations: readonly { readonly invariant: string; readonly text: string }[]): string[] {
  return violations.map(({ invariant, text }) => `${invariant} ${text}`)
}

function withEvents(more: readonly EventsEvent[]): EventsEvidence {
  return { ...right, events: [...right.events, ...more] }
}

function replaced(append: TriedAppend, by: TriedAppend): EventsEvent[] {
  return right.events.map((event) =>
    event.e === 'tried'
      ? { ...event, appends: event.appends.map((one) => (one === append ? by : one)) }
      : event,
  )
}

function keptEvent(
  position: number,
  stream: string,
  version: number,
  key: string,
  type = 'added',
): KeptEvent {
  return { position, stream, version, key, type, amount: position }
}

function committed(
  t: number,
  ...done: [append: TriedAppend, version: number, position: number][]
): EventsEvent {
  return {
    e: 'committed',
    t,
    asked: t - 1,
    appends: done.map(([{ id }, version, position]) => ({ id, version, position })),
  }
}

function sighting({ position, key }: KeptEvent, generation = 1): Sighting {
  return { reader: 'totals', generation, position, key }
}

function seenBy(positions: readonly number[]): EventsEvent[] {
  const keys = new Map(kept.map(({ position, key }) => [position, key]))
  const events = positions.map((position) => [position, keys.get(position) ?? '', 8] as const)
  return right.events.map((event) => (event === followed ? { ...followed, events } : event))
}

/** Somebody had the part from one moment to the other, and came as far as the log. */
function leased(by: string, from: number, to: number, done: boolean): EventsEvent[] {
  return [held(by, from, by === 'x' ? 0 : 5), ...moved(by, to, 5, 'advanced', done)]
}

function held(by: string, t: number, position: number): EventsEvent & { readonly e: 'held' } {
  return { e: 'held', t, asked: t - 1, by, part: 'totals 1 0', token: by, position }
}

function moved(
  by: string,
  t: number,
  position: number,
  result: 'advanced' | 'lost',
  done = false,
): EventsEvent[] {
  const move = { by, part: 'totals 1 0', token: by, position }
  return [
    { e: 'advance-try', t: t - 1, ...move },
    { e: 'advance-result', t, ...move, done, result },
  ]
}

function foldOf(events: readonly KeptEvent[]): Total[] {
  const streams = [...new Set(events.map(({ stream }) => stream))]
  return streams.map((stream) => {
    const own = events.filter((event) => event.stream === stream)
    return {
      stream,
      count: own.length,
      sum: own.reduce((sum, { amount }) => sum + amount, 0),
      digest: own.reduce((digest, { amount }) => (digest * digests.factor + amount) % digests.modulus, 0),
      version: own.length,
    }
  })
}

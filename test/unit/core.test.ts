import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { backoffDelay, type Jitter } from '../../src/core/backoff.js'
import { milliseconds } from '../../src/core/duration.js'
import { isMillraceError, MillraceError, show } from '../../src/core/errors.js'
import { Emitter } from '../../src/core/events.js'
import { describeFailure } from '../../src/core/failure.js'
import { isFinal, jobStates } from '../../src/core/job.js'
import { laneCount, planPicks, roomFor, spreadTurns, takeByPicks } from '../../src/core/lanes.js'
import { crashed, failed, runsAlone, transitions } from '../../src/core/lifecycle.js'
import { compileBackoff, compileLanes } from '../../src/core/options.js'
import { newId } from '../../src/system/ids.js'

describe('durations', () => {
  test.each([
    [0, 0],
    [1500, 1500],
    ['250ms', 250],
    ['5s', 5_000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['1.5h', 5_400_000],
    ['30d', 2_592_000_000],
  ])('%s', (text, ms) => expect(milliseconds(text, 'x')).toBe(ms))

  test.each([Number.NaN, -1, '5', '5 years', '', 's', '1e3s', '-5s', '4000d', null, {}])(
    '%s is refused',
    (value) => {
      expect(() => milliseconds(value as never, 'delay')).toThrow(/^delay is /)
    },
  )
})

describe('backoff', () => {
  const at = (attempt: number, previous = 0) => ({ attempt, previous, error: undefined })
  const delays = (options: Parameters<typeof compileBackoff>[0], random = () => 1) =>
    [1, 2, 3, 4].map((attempt) => backoffDelay(compileBackoff(options), at(attempt), random))

  test('types', () => {
    const common = { initialDelay: 1_000, maxDelay: '1h', jitter: 'none' } as const
    expect(delays({ ...common, type: 'fixed' })).toEqual([1_000, 1_000, 1_000, 1_000])
    expect(delays({ ...common, type: 'linear' })).toEqual([1_000, 2_000, 3_000, 4_000])
    expect(delays({ ...common, type: 'exponential' })).toEqual([1_000, 2_000, 4_000, 8_000])
    expect(delays({ ...common, type: 'exponential', factor: 3 })).toEqual([1_000, 3_000, 9_000, 27_000])
    expect(delays({ ...common, type: 'polynomial', factor: 3 })).toEqual([1_000, 8_000, 27_000, 64_000])
    expect(delays({ type: 'custom', delay: (attempt) => `${attempt}s` })).toEqual([
      1_000, 2_000, 3_000, 4_000,
    ])
  })

  test('jitter stays in its range, and nothing passes the cap', () => {
    void fc.assert(
      fc.property(
        fc.constantFrom<Jitter>('none', 'full', 'equal', 0, 20, 100),
        fc.constantFrom('fixed', 'linear', 'exponential', 'polynomial', 'decorrelated'),
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        fc.integer({ min: 0, max: 100_000 }),
        (jitter, type, attempt, random, previous) => {
          const backoff = compileBackoff({ type, jitter, initialDelay: 1_000, maxDelay: 60_000 })
          const delay = backoffDelay(backoff, at(attempt, previous), () => random)
          expect(Number.isInteger(delay) && delay >= 0 && delay <= 60_000).toBe(true)
          if (type === 'decorrelated') expect(delay).toBeGreaterThanOrEqual(1_000)
        },
      ),
      { numRuns: 2_000 },
    )
    expect(delays({ type: 'fixed', jitter: 'full' }, () => 0.25)[0]).toBe(250)
    expect(delays({ type: 'fixed', jitter: 'equal' }, () => 0)[0]).toBe(500)
    expect(delays({ type: 'fixed', jitter: 20 }, () => 0)[0]).toBe(800)
  })
})

describe('lanes', () => {
  test('one round spreads the weights evenly', () => {
    const turns = spreadTurns([8, 4, 2, 1])
    expect([0, 1, 2, 3].map((lane) => turns.filter((turn) => turn === lane).length)).toEqual([8, 4, 2, 1])
    // Half of the turns are critical, so no two others follow each other more than twice.
    expect(turns.join('')).not.toMatch(/[123]{3}/)
  })

  test('claim(n) takes the same lanes as n times claim(1), whatever waits', () => {
    const policy = compileLanes({}, 1_000)
    void fc.assert(
      fc.property(
        fc.array(fc.nat(40), { minLength: 4, maxLength: 4 }),
        fc.nat(100),
        fc.integer({ min: 1, max: 60 }),
        (depths, turn, n) => {
          const claim = (left: number[], count: number, from: number) => {
            const room = { shared: count, own: [0, 0, 0, 0] }
            const taken = [0, 0, 0, 0]
            takeByPicks(
              room,
              planPicks(room, policy, ['q'], { turn: from, claim: 0 }),
              (_queue, lane, want) => {
                const found = Math.min(want, left[lane] as number)
                left[lane] = (left[lane] as number) - found
                taken[lane] = (taken[lane] as number) + found
                return found
              },
            )
            return taken
          }
          const atOnce = claim([...depths], n, turn)
          const left = [...depths]
          const oneByOne = [0, 0, 0, 0]
          for (let i = 0; i < n; i++)
            for (const [lane, k] of claim(left, 1, turn + i).entries())
              oneByOne[lane] = (oneByOne[lane] as number) + k
          expect(atOnce).toEqual(oneByOne)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('room never hands out a reserved slot to another lane', () => {
    const policy = compileLanes({ reserved: { critical: 2, high: 1 } }, 5)
    expect(roomFor(5, policy, [0, 0, 0, 0])).toEqual({ shared: 2, own: [2, 1, 0, 0] })
    expect(roomFor(3, policy, [2, 0, 0, 0])).toEqual({ shared: 2, own: [0, 1, 0, 0] })
    expect(roomFor(1, policy, [0, 1, 3, 0])).toEqual({ shared: 0, own: [2, 0, 0, 0] })
    expect(() => compileLanes({ reserved: { critical: 5 } }, 5)).toThrow(/lanes.reserved/)
  })
})

describe('lifecycle', () => {
  const attempt = { attempt: 1, crashes: 0, maxAttempts: 3, maxCrashes: 3, retryDelay: 0, suspect: false }
  const retention = { completed: 10, dead: 20 }
  const failure = describeFailure('job', new Error('x'))
  const backoff = compileBackoff({ type: 'fixed', jitter: 'none' })
  const verdict = { failure, error: undefined, retryable: true, retryAfter: undefined }

  test('every state can be reached and left, or is final', () => {
    for (const state of jobStates) {
      expect(transitions.some((t) => t.to === state)).toBe(true)
      expect(isFinal(state) || transitions.some((t) => t.from === state)).toBe(true)
    }
  })

  test('attempts end a failing job, crashes a poisonous one', () => {
    const fail = (n: number) => failed({ ...attempt, attempt: n }, verdict, backoff, retention, () => 0).to
    expect([fail(1), fail(2), fail(3)]).toEqual(['retrying', 'retrying', 'dead'])
    const crash = (crashes: number) =>
      crashed({ crashes, maxCrashes: 3, cancelReason: undefined }, failure, retention).to
    expect([crash(0), crash(1), crash(2)]).toEqual(['pending', 'pending', 'dead'])
    expect(crashed({ crashes: 0, maxCrashes: 3, cancelReason: 'no' }, failure, retention).to).toBe(
      'cancelled',
    )
    expect([0, 1, 2].map((crashes) => runsAlone({ ...attempt, crashes }))).toEqual([false, false, true])
    expect(runsAlone({ ...attempt, maxCrashes: 1 })).toBe(false)
  })
})

describe('failures', () => {
  const cause = (message: string, name = 'Error') =>
    describeFailure('job', { name, message, stack: `${name}\n    at run (file.js:1:2)` }).cause

  test('ids, numbers and quoted values do not split a cause; names and places do', () => {
    expect(cause('user 17 not found')).toBe(cause('user 4711 not found'))
    expect(cause('no row "a"')).toBe(cause('no row "b c"'))
    expect(cause('at 018f2a3b-1c2d-7e3f-8a4b-5c6d7e8f9a0b')).toBe(
      cause('at 018f2a3b-9999-7e3f-8a4b-5c6d7e8f9a0b'),
    )
    expect(cause('a', 'TypeError')).not.toBe(cause('a', 'RangeError'))
    expect(cause('timeout')).not.toBe(cause('refused'))
  })
})

describe('errors', () => {
  test.for<[unknown, string]>([
    ['x'.repeat(100), `"${'x'.repeat(57)}…"`],
    [12n, '12n'],
    [Number.NaN, 'NaN'],
    [undefined, 'undefined'],
    [[], '[]'],
    [[1, 2], 'an array of 2'],
    [{ secret: 1 }, 'an object'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [new Date(Number.NaN), 'an invalid Date'],
  ])('show the value %o as %s', ([value, text]) => {
    expect(show(value)).toBe(text)
  })

  test('are recognised across realms', () => {
    const error = new MillraceError('CLOSED', 'x')
    const foreign = Object.assign(new Error('x'), { code: 'CLOSED', [Symbol.for('millrace.error')]: true })
    expect([
      isMillraceError(error),
      isMillraceError(foreign, 'CLOSED'),
      isMillraceError(foreign, 'JOB_DEAD'),
    ]).toEqual([true, true, false])
    expect(isMillraceError({ code: 'CLOSED' })).toBe(false)
  })
})

describe('events', () => {
  test('a listener that throws becomes an error event, and the others still hear', () => {
    const unheard: unknown[] = []
    const emitter = new Emitter((event) => unheard.push(event.during))
    const heard: string[] = []
    emitter.on('paused', () => {
      throw new Error('mine')
    })
    emitter.on('paused', ({ queue }) => heard.push(queue))
    emitter.emit('paused', { queue: 'q' })
    expect(heard).toEqual(['q'])
    expect(unheard).toEqual(["listener of 'paused'"])
  })
})

describe('ids', () => {
  test('are UUIDv7, unique and in order, even when the clock stands or goes back', () => {
    const times = [1e12, 1e12, 1e12 + 5, 1e12 - 100]
    const ids = times.flatMap((time) => Array.from({ length: 10_000 }, () => newId(time)))
    expect(new Set(ids).size).toBe(ids.length)
    expect([...ids].sort()).toEqual(ids)
    for (const id of ids.slice(0, 100))
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})

test('there are as many lanes as names', () => expect(laneCount).toBe(4))

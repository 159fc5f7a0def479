import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { backoffDelay } from '../../src/core/backoff.js'
import {
  findGuard,
  type GuardRecord,
  holdsKey,
  judgeWord,
  keepsKey,
  leftBehind,
  lookAgainIn,
  reopened,
  toBeReopened,
} from '../../src/core/guard.js'
import { retryWindow } from '../../src/core/idempotency.js'
import type { Failure } from '../../src/core/job.js'
import { crashed } from '../../src/core/lifecycle.js'
import { compileBackoff } from '../../src/core/options.js'

describe('the longest retry window', () => {
  const policy = { maxAttempts: 3, maxCrashes: 1, timeout: 1_000 }
  const window = (backoff: Parameters<typeof compileBackoff>[0], more = {}) =>
    retryWindow({ ...policy, ...more, backoff: compileBackoff(backoff) })

  test('counts all attempts at their longest, and the waits between them', () => {
    const delay = { initialDelay: 100, maxDelay: 1_000 }
    expect(window({ type: 'fixed', ...delay, jitter: 'none' })).toBe(3_000 + 200)
    expect(window({ type: 'fixed', ...delay, jitter: 50 })).toBe(3_000 + 300)
    expect(window({ type: 'linear', ...delay, jitter: 'full' })).toBe(3_000 + 300)
    expect(window({ type: 'exponential', ...delay, factor: 4, jitter: 'equal' })).toBe(3_000 + 500)
    expect(window({ type: 'polynomial', ...delay })).toBe(3_000 + 500)
    expect(window({ type: 'exponential', ...delay, factor: 100 })).toBe(3_000 + 100 + 1_000)
    expect(window({ type: 'custom', delay: () => 5, maxDelay: 700 })).toBe(3_000 + 1_400)
    expect(window({}, { maxAttempts: 1 })).toBe(1_000)
  })

  test('a crash gives another attempt, after the lease has ended', () => {
    expect(window({}, { maxAttempts: 1, maxCrashes: 3 })).toBe(3 * 1_000 + 2 * 30_000)
  })

  test('no delay of the backoff is longer than it counts', () => {
    const types = ['fixed', 'linear', 'exponential', 'polynomial', 'decorrelated'] as const
    const chances = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 8, maxLength: 8 })
    const check = fc.property(fc.constantFrom(...types), chances, (type, chance) => {
      const backoff = compileBackoff({ type, initialDelay: 50, maxDelay: 5_000, factor: 1.7, jitter: 'full' })
      let sum = 0
      let previous = 0
      for (let attempt = 1; attempt < 9; attempt++) {
        const random = () => chance[attempt - 1] as number
        previous = backoffDelay(backoff, { attempt, previous, error: undefined }, random)
        sum += previous
      }
      expect(sum).toBeLessThanOrEqual(retryWindow({ maxAttempts: 9, maxCrashes: 1, timeout: 1, backoff }) - 9)
    })
    fc.assert(check)
  })

  test('stays within what a duration can be', () => {
    expect(window({ maxDelay: '365d', initialDelay: '365d' }, { maxAttempts: 10_000 })).toBe(
      10 * 365.25 * 86_400_000,
    )
  })
})

describe('what is found under a key', () => {
  const held: GuardRecord = {
    holder: 'a',
    byJob: false,
    done: false,
    since: 0,
    expiresAt: 100,
    result: undefined,
    standsUntil: undefined,
  }
  const ofJob: GuardRecord = { ...held, byJob: true, expiresAt: undefined }
  const done: GuardRecord = { ...held, done: true, result: '1' }
  const live = () => true
  const gone = () => false
  const a = { holder: 'a', byJob: false }
  const b = { holder: 'b', byJob: false }

  test('a record whose job is replayed', () => {
    const own = { holder: 'a', byJob: true }
    const marked = toBeReopened({ ...done, byJob: true }, 99) as GuardRecord
    expect(toBeReopened({ ...done, byJob: true }, 100)).toBeUndefined()
    expect([findGuard(marked, own, 99, live), findGuard(marked, own, 100, live)]).toEqual(['again', 'free'])
    expect([findGuard(marked, b, 99, live), findGuard(marked, b, 100, live)]).toEqual(['done', 'free'])
    const open = reopened(marked, 99)
    expect(findGuard(open, own, 200, live)).toBe('own')
    expect(findGuard(open, b, 200, live)).toBe('busy')
    expect(findGuard(open, b, 99, gone)).toBe('done')
    expect(findGuard(open, b, 100, gone)).toBe('free')
    expect(leftBehind(open, false)).toEqual({ ...done, byJob: true, since: 99 })
    expect(leftBehind(open, true), 'what stands is better than a hold').toEqual(leftBehind(open, false))
    expect(leftBehind(ofJob, false)).toBeUndefined()
  })

  test('a record whose job died and left something done', () => {
    const dead = { state: 'dead', unwinds: true } as const
    const failure = { message: 'lost' } as Failure
    expect(holdsKey(dead)).toBe(true)
    expect(holdsKey({ ...dead, unwinds: false })).toBe(false)
    expect(holdsKey({ ...dead, state: 'cancelled' })).toBe(false)
    const death = crashed({ crashes: 0, maxCrashes: 1, cancelReason: undefined }, failure, {
      completed: 1,
      dead: 1,
    })
    const none = { ...death, idle: true }
    const began = { unwinds: true, hasBegun: true }
    const fresh = { unwinds: true, hasBegun: false }
    expect([keepsKey(death, began), keepsKey(death, fresh), keepsKey(none, began)]).toEqual([
      true,
      true,
      true,
    ])
    expect(keepsKey(none, fresh), 'it has done nothing').toBe(false)
    expect(keepsKey({ ...death, retain: 0 }, began), 'it is not kept').toBe(false)
    expect(keepsKey(death, { ...began, unwinds: false })).toBe(false)
    expect(leftBehind(ofJob, true)).toEqual(ofJob)
    expect(toBeReopened(ofJob, 20), 'it has the key').toBeUndefined()
  })

  test('a lease, a job, a record', () => {
    expect(findGuard(undefined, a, 0, live)).toBe('free')
    expect(findGuard(held, a, 500, live)).toBe('own')
    expect([findGuard(held, b, 99, live), findGuard(held, b, 100, live)]).toEqual(['busy', 'free'])
    expect([findGuard(ofJob, b, 9e9, live), findGuard(ofJob, b, 0, gone)]).toEqual(['busy', 'free'])
    expect(findGuard(ofJob, a, 0, live), 'a caller is not the job of the same name').toBe('busy')
    expect([findGuard(done, a, 99, live), findGuard(done, a, 100, live)]).toEqual(['done', 'free'])
  })

  test('whose word counts', () => {
    expect(judgeWord(undefined, 'a', 'complete')).toBe('lost')
    expect(judgeWord(held, 'b', 'complete')).toBe('lost')
    expect(judgeWord(ofJob, 'a', 'complete')).toBe('lost')
    expect(judgeWord(held, 'a', 'complete')).toBe('applies')
    expect([judgeWord(done, 'a', 'complete'), judgeWord(done, 'a', 'fail')]).toEqual(['repeated', 'lost'])
  })

  test('when to look again: a quarter of the time, and not later than the lease ends', () => {
    expect(lookAgainIn(ofJob, 0)).toBe(100)
    expect(lookAgainIn(ofJob, 8_000)).toBe(2_000)
    expect(lookAgainIn(ofJob, 9e9)).toBe(60_000)
    expect(lookAgainIn(ofJob, -9e9)).toBe(100)
    expect([lookAgainIn(held, 30), lookAgainIn(held, 100)]).toEqual([70, 1])
  })
})

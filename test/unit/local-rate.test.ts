import { LocalQueue } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { codeOf } from './local-queues.js'

describe('rate', () => {
  test('slides: a burst counts until its own starts have left the window', async () => {
    const clock = new VirtualClock()
    const starts: number[] = []
    const queue = new LocalQueue<null>({
      run: () => void starts.push(clock.monotonic()),
      concurrency: 10,
      rate: { max: 2, per: '1s' },
      clock,
    })
    void queue.push(null)
    await clock.advance(900)
    for (let i = 0; i < 4; i++) void queue.push(null)
    clock.jump(86_400_000) // the wall clock has no say
    await clock.advance(5_000)
    expect(starts).toEqual([0, 900, 1_000, 1_900, 2_000])
    await queue.close()
  })

  test('holds to the fraction of a millisecond, though timers come early, as those of Node.js do', async () => {
    const clock = new VirtualClock()
    const schedule = clock.after.bind(clock)
    clock.after = (ms, fn) => schedule(ms - 0.625, fn)
    const starts: number[] = []
    const run = () => void starts.push(clock.monotonic())
    const queue = new LocalQueue<null>({ run, concurrency: 10, rate: { max: 3, per: 20 }, clock })
    const results = Array.from({ length: 13 }, () => queue.push(null))
    await clock.advance(100)
    await Promise.all(results)
    const gaps = starts.slice(3).map((at, i) => at - (starts[i] as number))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(20)
    expect(starts.at(-1)).toBeLessThan(4 * 21)
  })

  test('keeps no timer when nobody waits', async () => {
    const clock = new VirtualClock()
    let timers = 0
    const schedule = clock.after.bind(clock)
    clock.after = (ms, fn) => {
      timers++
      const cancel = schedule(ms, () => {
        timers--
        fn()
      })
      return () => {
        timers--
        cancel()
      }
    }
    const queue = new LocalQueue<number, number>({ run: (n) => n, rate: { max: 1, per: '1h' }, clock })
    expect([await queue.push(1), timers]).toEqual([1, 0])
    const abort = new AbortController()
    const second = codeOf(queue.push(2, { signal: abort.signal }))
    expect(timers).toBe(1)
    abort.abort('enough')
    expect([await second, timers]).toEqual(['enough', 0])
    const third = codeOf(queue.push(3))
    await queue.close({ drain: false })
    expect([await third, timers]).toEqual(['CLOSED', 0])
  })

  test('a close without drain starts nothing, even when the window has just opened', async () => {
    const clock = new VirtualClock()
    clock.after = () => () => {} // a timer that is late
    const ran: number[] = []
    const queue = new LocalQueue<number>({ run: (n) => void ran.push(n), rate: { max: 1, per: 10 }, clock })
    const results = [1, 2, 3].map((n) => codeOf(queue.push(n)))
    await clock.advance(50)
    void queue.close({ drain: false })
    expect([await Promise.all(results), ran]).toEqual([['ok', 'CLOSED', 'CLOSED'], [1]])
  })
})

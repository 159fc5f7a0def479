import { getEventListeners } from 'node:events'
import { LocalQueue } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { codeOf, manual, turn } from './local-queues.js'

describe('running', () => {
  test('one after another in order, unless told otherwise', async () => {
    const { queue, started, end } = manual()
    const results = Promise.all(['a', 'b', 'c'].map((item) => queue.push(item)))
    expect([started, queue.running, queue.pending, queue.size]).toEqual([['a'], 1, 2, 3])
    for (const item of ['a', 'b', 'c']) await end(item)
    expect(await results).toEqual(['a!', 'b!', 'c!'])
    expect([started, queue.size]).toEqual([['a', 'b', 'c'], 0])
  })

  test('as many at a time as concurrency says', async () => {
    let running = 0
    let most = 0
    const queue = new LocalQueue({
      concurrency: 3,
      run: async (n: number) => {
        most = Math.max(most, ++running)
        await turn()
        running--
        return n * 2
      },
    })
    const results = await Promise.all(Array.from({ length: 20 }, (_, n) => queue.push(n)))
    expect(results).toEqual(Array.from({ length: 20 }, (_, n) => n * 2))
    expect(most).toBe(3)
  })

  test('larger priorities first, equal ones in order', async () => {
    const { queue, started, end } = manual()
    const first = queue.push('first')
    for (const [item, priority] of [
      ['a', 0],
      ['b', 5],
      ['c', -1],
      ['d', 5],
      ['e', 0.5],
    ] as const)
      void queue.push(item, { priority })
    for (const item of ['first', 'b', 'd', 'e', 'a', 'c']) await end(item)
    await first
    expect(started).toEqual(['first', 'b', 'd', 'e', 'a', 'c'])
  })

  test('an error rejects its own promise and nothing else, even when nobody looks', async () => {
    const queue = new LocalQueue({
      run: (n: number) => {
        if (n % 2 === 1) throw new Error(`odd ${n}`)
        return n
      },
    })
    const failed: unknown[] = []
    queue.on('failed', ({ item, error }) => failed.push([item, (error as Error).message]))
    void queue.push(1) // an unhandled rejection would fail this file
    await expect(queue.push(3)).rejects.toThrow('odd 3')
    expect(await queue.push(4)).toBe(4)
    expect(failed).toEqual([
      [1, 'odd 1'],
      [3, 'odd 3'],
    ])
  })

  test('a run may push into its own queue', async () => {
    const queue: LocalQueue<number, void> = new LocalQueue<number>({
      run: (n) => {
        if (n > 0) void queue.push(n - 1)
      },
    })
    await queue.push(50)
    await queue.idle()
    expect(queue.size).toBe(0)
  })
})

describe('signals', () => {
  test('take a push out that waits, inside or outside, and what stood behind it moves up', async () => {
    const { queue, started, end } = manual({ highWaterMark: 2 })
    const abort = new AbortController()
    const { signal } = abort
    void queue.push('a')
    const b = queue.push('b', { signal })
    const c = queue.push('c', { signal })
    const d = queue.push('d')
    abort.abort('enough')
    expect(await Promise.all([codeOf(b), codeOf(c)])).toEqual(['enough', 'enough'])
    expect([queue.size, queue.pending]).toEqual([2, 1])
    for (const item of ['a', 'd']) await end(item)
    expect([await d, started]).toEqual(['d!', ['a', 'd']])
    expect(await codeOf(queue.push('e', { signal }))).toBe('enough')
    expect(await codeOf(queue.tryPush('e', { signal }))).toBe('enough')
  })

  test('reach what runs, which decides itself how it ends', async () => {
    const { queue, signals, end } = manual()
    const abort = new AbortController()
    const a = queue.push('a', { signal: abort.signal })
    expect(signals.get('a')?.aborted).toBe(false)
    abort.abort('enough')
    expect(signals.get('a')?.reason).toBe('enough')
    await end('a')
    expect(await a).toBe('a!')
  })

  test('end a wait for ready', async () => {
    const { queue } = manual({ highWaterMark: 1 })
    void queue.push('a')
    const abort = new AbortController()
    const ready = queue.ready({ signal: abort.signal })
    abort.abort('enough')
    expect(await codeOf(ready)).toBe('enough')
    expect(await codeOf(queue.ready({ signal: abort.signal }))).toBe('enough')
  })

  test('carry no listeners of pushes that are over', async () => {
    const { queue, end } = manual({ highWaterMark: 1, overflow: 'reject' })
    const { signal } = new AbortController()
    const a = queue.push('a', { signal })
    expect(await codeOf(queue.push('b', { signal }))).toBe('QUEUE_FULL')
    expect(queue.tryPush('c', { signal })).toBeUndefined()
    const ready = queue.ready({ signal })
    await end('a')
    await Promise.all([a, ready])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('close', () => {
  test('runs what was pushed, inside and outside, and takes nothing more', async () => {
    const { queue, end } = manual({ highWaterMark: 2 })
    const results = ['a', 'b', 'c'].map((item) => queue.push(item))
    const ready = queue.ready()
    const closed = queue.close()
    expect(
      await Promise.all([ready, queue.ready(), queue.push('d'), queue.tryPush('d')].map(codeOf)),
    ).toEqual(Array(4).fill('CLOSED'))
    for (const item of ['a', 'b', 'c']) await end(item)
    await closed
    expect(await Promise.all(results)).toEqual(['a!', 'b!', 'c!'])
    await queue.close()
  })

  test('without drain rejects what waits and lets end what runs', async () => {
    const { queue, started, end } = manual({ highWaterMark: 2 })
    const results = ['a', 'b', 'c'].map((item) => codeOf(queue.push(item)))
    const closed = queue.close({ drain: false })
    expect(await Promise.all(results.slice(1))).toEqual(['CLOSED', 'CLOSED'])
    await end('a')
    await closed
    expect([await results[0], started]).toEqual(['ok', ['a']])
  })

  test('aborts what runs when the grace ends, and does not wait for what is deaf', async () => {
    const clock = new VirtualClock()
    const { queue, signals, ends, events, end } = manual({ clock, concurrency: 2, highWaterMark: 3 })
    const failed: unknown[] = []
    queue.on('failed', (event) => failed.push(event))
    const results = ['a', 'b', 'c', 'd'].map((item) => codeOf(queue.push(item)))
    const idle = queue.idle()
    const closed = queue.close({ grace: '10s' })
    await clock.advance(9_999)
    expect(signals.get('a')?.aborted).toBe(false)
    await clock.advance(1)
    await Promise.all([closed, idle])
    expect(await Promise.all(results)).toEqual(Array(4).fill('CLOSED'))
    expect(signals.get('b')?.reason.message).toMatch(/still ran when the grace of 10000 ms ended/)
    expect([queue.size, queue.running, events]).toEqual([0, 0, ['full', 'ready', 'idle']])
    ends.get('a')?.reject(new Error('late'))
    await end('b')
    expect([queue.size, queue.running, failed, events.at(-1)]).toEqual([0, 0, [], 'idle'])
  })

  test('a second call hastens the first', async () => {
    const { queue } = manual()
    const a = codeOf(queue.push('a'))
    const closed = queue.close({ grace: '1h' })
    await queue.close({ grace: 0 })
    await closed
    expect(await a).toBe('CLOSED')
  })

  test('of an idle queue tells nothing', async () => {
    const { queue, events } = manual()
    await queue.close()
    expect(events).toEqual([])
    await queue.idle()
  })
})

describe('options', () => {
  const run = () => {}
  test.for<[object, RegExp]>([
    [{}, /^run is undefined; expected a function/],
    [{ run, concurency: 2 }, /has no option 'concurency'; did you mean 'concurrency'\?/],
    [{ run, concurrency: 0 }, /^concurrency is 0/],
    [{ run, highWaterMark: 0 }, /^highWaterMark is 0/],
    [{ run, highWaterMark: 5, lowWaterMark: 5 }, /^lowWaterMark is 5; expected a whole number from 0 to 4/],
    [{ run, size: () => 1 }, /^highWaterMark is undefined; expected a limit in the unit of `size`/],
    [{ run, overflow: 'drop' }, /^overflow is "drop"; expected one of wait, reject, dropOldest/],
    [{ run, rate: { max: 0, per: '1s' } }, /^rate.max is 0/],
    [{ run, rate: { max: 1, per: 0 } }, /^rate.per is 0; expected at least 1 ms/],
    [{ run, rate: { max: 1, per: 'soon' } }, /^rate.per is "soon"/],
    [{ run, rate: { max: 1, every: '1s' } }, /^rate has no option 'every'/],
  ])('%o', ([options, message]) => {
    expect(() => new LocalQueue(options as never)).toThrow(message)
  })

  test('of push and close reject, and of `on` throw', async () => {
    const { queue } = manual()
    await expect(queue.push('a', { priority: Number.NaN })).rejects.toThrow(/^priority is NaN/)
    await expect(queue.push('a', { prio: 1 } as never)).rejects.toThrow(/push has no option 'prio'/)
    await expect(queue.close({ grace: 'x' })).rejects.toThrow(/^grace is "x"/)
    expect(() => queue.on('drained' as never, () => {})).toThrow(/^event is "drained"/)
    expect(await codeOf(queue.close())).toBe('ok')
  })
})

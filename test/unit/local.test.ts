import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { isMillraceError, QueueFullError } from 'millrace'
import { LocalQueue, type LocalQueueOptions, type Overflow } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'

/** A queue whose runs end when the test says so. */
function manual(options: Partial<LocalQueueOptions<string, string>> = {}) {
  const started: string[] = []
  const signals = new Map<string, AbortSignal>()
  const ends = new Map<string, { resolve: (value: string) => void; reject: (error: unknown) => void }>()
  const events: string[] = []
  const queue = new LocalQueue<string, string>({
    ...options,
    run: (item, { signal }) =>
      new Promise((resolve, reject) => {
        started.push(item)
        signals.set(item, signal)
        ends.set(item, { resolve, reject })
      }),
  })
  for (const name of ['full', 'ready', 'idle'] as const) queue.on(name, () => events.push(name))
  const end = async (...items: string[]) => {
    for (const item of items) ends.get(item)?.resolve(`${item}!`)
    await turn()
  }
  return { queue, started, signals, ends, events, end }
}

/** All promises that can go on have gone on. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

const codeOf = (promise: Promise<unknown> | undefined) =>
  promise?.then(
    () => 'ok',
    (error) => (isMillraceError(error) ? error.code : error),
  )

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

describe('water marks', () => {
  test('full at the high one, ready at the low one, each told once', async () => {
    const { queue, events, end } = manual({ concurrency: 9, highWaterMark: 4, lowWaterMark: 1 })
    for (const item of ['a', 'b', 'c']) void queue.push(item)
    expect([queue.isFull, events]).toEqual([false, []])
    void queue.push('d')
    expect([queue.isFull, events]).toEqual([true, ['full']])
    const ready = queue.ready()
    await end('a', 'b')
    expect([queue.size, queue.isFull, events]).toEqual([2, true, ['full']])
    await end('c')
    await ready
    expect([queue.size, queue.isFull, events]).toEqual([1, false, ['full', 'ready']])
    await end('d')
    expect(events).toEqual(['full', 'ready', 'idle'])
    await queue.ready()
  })

  test('a listener can be taken off, once for each time that it was put on', async () => {
    const { queue, end } = manual({ highWaterMark: 1 })
    const heard: number[] = []
    const listener = ({ size }: { size: number }) => heard.push(size)
    const off = [queue.on('full', listener), queue.on('full', listener)]
    void queue.push('a')
    off[0]?.()
    await end('a')
    void queue.push('b')
    off[1]?.()
    await end('b')
    void queue.push('c')
    expect(heard).toEqual([1, 1, 1])
  })

  test('the low mark is half of the high one by default', async () => {
    const { queue, end } = manual({ concurrency: 5, highWaterMark: 5 })
    for (const item of ['a', 'b', 'c', 'd', 'e']) void queue.push(item)
    await end('a', 'b')
    expect(queue.isFull).toBe(true)
    await end('c')
    expect([queue.size, queue.isFull]).toEqual([2, false])
  })

  test('every listener hears full and ready in turns, even when one of them pushes', async () => {
    const { queue, events, end } = manual({ highWaterMark: 2, lowWaterMark: 1 })
    const first: string[] = []
    let more = 3
    queue.on('ready', () => {
      first.push('ready')
      while (more > 0 && queue.tryPush(`more ${more}`)) more--
    })
    const last: string[] = []
    for (const name of ['full', 'ready'] as const) queue.on(name, () => last.push(name))
    void queue.push('a')
    void queue.push('b')
    for (const item of ['a', 'b', 'more 3', 'more 2', 'more 1']) await end(item)
    expect(first).toHaveLength(4)
    expect(last).toEqual(['full', 'ready', 'full', 'ready', 'full', 'ready', 'full', 'ready'])
    expect(events.filter((name) => name !== 'idle')).toEqual(last)
  })

  test('a listener may close the queue at once', async () => {
    const { queue } = manual({ highWaterMark: 1 })
    queue.on('full', () => void queue.close({ grace: 0 }))
    expect(await codeOf(queue.push('a'))).toBe('CLOSED')
    expect(queue.size).toBe(0)
  })
})

describe('overflow', () => {
  test("'wait' lets pushes in as soon as there is room, the urgent first", async () => {
    const { queue, started, end } = manual({ highWaterMark: 2 })
    const results = ['a', 'b', 'c'].map((item) => queue.push(item))
    const urgent = queue.push('urgent', { priority: 1 })
    expect([queue.size, queue.pending]).toEqual([2, 1])
    await end('a')
    expect([queue.size, queue.pending, started]).toEqual([2, 1, ['a', 'urgent']])
    for (const item of ['urgent', 'b', 'c']) await end(item)
    expect(await Promise.all([...results, urgent])).toEqual(['a!', 'b!', 'c!', 'urgent!'])
    expect(started).toEqual(['a', 'urgent', 'b', 'c'])
  })

  test("'reject' says how full the queue is and when to come back", async () => {
    const clock = new VirtualClock()
    const options = { overflow: 'reject', highWaterMark: 4, lowWaterMark: 2, name: 'mails', clock } as const
    const { queue, end } = manual(options)
    void queue.push('a')
    await clock.advance(100)
    await end('a')
    for (const item of ['b', 'c', 'd', 'e']) void queue.push(item)
    const error = await queue.push('f').catch((error) => error)
    expect(error).toBeInstanceOf(QueueFullError)
    expect(error).toMatchObject({ code: 'QUEUE_FULL', queue: 'mails', depth: 4, limit: 4, retryAfter: 200 })
    expect(error.message).toBe(
      "queue 'mails' is full: it holds 4 and its limit is 4; try again in 200 ms, or raise the limit",
    )
    await end('b')
    expect(await codeOf(queue.push('f'))).toBe('QUEUE_FULL') // still above the low mark
    await end('c')
    void queue.push('f')
    expect(queue.size).toBe(3)
  })

  test("'reject' says to come back in a second before it knows its pace", async () => {
    const { queue } = manual({ overflow: 'reject', highWaterMark: 1 })
    void queue.push('a')
    await expect(queue.push('b')).rejects.toMatchObject({ retryAfter: 1_000, queue: 'local' })
  })

  test("'dropOldest' drops the oldest of the least urgent", async () => {
    const { queue, started, end } = manual({ overflow: 'dropOldest', highWaterMark: 4 })
    const dropped: unknown[] = []
    queue.on('dropped', (event) => dropped.push(event))
    const a = queue.push('a')
    const b = queue.push('b', { priority: 1 })
    const c = queue.push('c')
    const d = queue.push('d')
    const e = queue.push('e')
    expect(await codeOf(c)).toBe('DROPPED')
    expect(dropped).toEqual([{ item: 'c', priority: 0 }])
    for (const item of ['a', 'b', 'd', 'e']) await end(item)
    expect(await Promise.all([a, b, d, e])).toEqual(['a!', 'b!', 'd!', 'e!'])
    expect(started).toEqual(['a', 'b', 'd', 'e'])
  })

  test("'dropOldest' never drops what runs or is more urgent, and drops nothing in vain", async () => {
    const { queue } = manual({
      overflow: 'dropOldest',
      highWaterMark: 10,
      size: (item) => Number(item.slice(1)),
    })
    void queue.push('a4')
    void queue.push('b3', { priority: 1 })
    void queue.push('c3')
    expect(await codeOf(queue.push('d7'))).toBe('QUEUE_FULL') // needs the place of b as well
    expect([queue.size, queue.pending]).toEqual([10, 2])
    void queue.push('e6', { priority: 1 })
    expect([queue.size, queue.pending]).toEqual([10, 1])
    expect(await codeOf(queue.push('f5', { priority: 0 }))).toBe('QUEUE_FULL')
    await queue.close({ grace: 0 })
  })

  test("'dropOldest' is ready again when what it dropped was large", async () => {
    const { queue, events } = manual({
      overflow: 'dropOldest',
      highWaterMark: 10,
      size: (item) => Number(item.slice(1)),
    })
    void queue.push('a1')
    void queue.push('b9')
    void queue.push('c1')
    expect([queue.size, events]).toEqual([2, ['full', 'ready']])
  })

  test.for<Overflow>(['wait', 'reject', 'dropOldest'])(
    "tryPush never waits or drops with '%s'",
    async (overflow) => {
      const { queue, started, end } = manual({ overflow, highWaterMark: 2, lowWaterMark: 0 })
      const results = [queue.tryPush('a'), queue.tryPush('b')]
      expect(queue.tryPush('c')).toBeUndefined()
      await end('a')
      expect([queue.size, queue.tryPush('c')]).toEqual([1, undefined])
      const ready = queue.ready()
      await end('b')
      await ready
      expect(await Promise.all(results)).toEqual(['a!', 'b!'])
      const c = queue.tryPush('c')
      await end('c')
      expect(await c).toBe('c!')
      expect(started).toEqual(['a', 'b', 'c'])
    },
  )
})

describe('size', () => {
  const sized = (options: Partial<LocalQueueOptions<string, string>> = {}) =>
    manual({ highWaterMark: 10, size: (item) => Number(item.slice(1)), concurrency: 9, ...options })

  test('an item larger than the mark waits for an empty queue, and others wait behind it', async () => {
    const { queue, started, end } = sized()
    for (const item of ['a4', 'b30', 'c1']) void queue.push(item)
    expect(started).toEqual(['a4'])
    await end('a4')
    expect([started, queue.size]).toEqual([['a4', 'b30'], 30])
    await end('b30')
    expect(started).toEqual(['a4', 'b30', 'c1'])
  })

  test('what was refused fits when the queue says ready', async () => {
    const { queue, events, end } = sized()
    for (const item of ['a2', 'b2', 'c1']) void queue.push(item)
    expect([queue.isFull, queue.tryPush('d9'), queue.isFull]).toEqual([false, undefined, true])
    const ready = queue.ready()
    await end('a2')
    expect(events).toEqual(['full'])
    await end('b2')
    await ready
    expect(queue.tryPush('d9')).toBeDefined()
    expect([queue.size, events]).toEqual([10, ['full', 'ready', 'full']])
  })

  test('0 counts as 1, so that items without bytes have a limit too', () => {
    const { queue } = sized()
    for (let i = 0; i < 10; i++) expect(queue.tryPush('x0')).toBeDefined()
    expect([queue.tryPush('x0'), queue.size]).toEqual([undefined, 10])
  })

  test.for<[string, () => number, RegExp]>([
    ['NaN', () => Number.NaN, /^size\(\) is NaN; expected a whole number/],
    ['negative', () => -1, /^size\(\) is -1/],
    ['a fraction', () => 0.5, /^size\(\) is 0.5/],
    ['infinite', () => Number.POSITIVE_INFINITY, /^size\(\) is Infinity/],
    ['text', () => '7' as never, /^size\(\) is "7"/],
    ['an error', () => JSON.parse('{'), /^size\(\) threw '.*'; expected it to return a whole number/],
  ])('%s is a typed error', async ([_, size, message]) => {
    const { queue } = sized({ size })
    for (const promise of [queue.push('a1'), queue.tryPush('a1')]) {
      await expect(promise).rejects.toThrow(message)
      expect(await codeOf(promise)).toBe('INVALID_OPTION')
    }
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

/** What the random test does next; the numbers choose among what there is. */
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('push' as const),
      size: fc.nat(12),
      priority: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('tryPush' as const),
      size: fc.nat(12),
      priority: fc.integer({ min: -1, max: 1 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('resolve' as const, 'reject' as const, 'abort' as const),
      which: fc.nat(20),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('ready' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat(150) }) },
)

const setup = fc.record({
  concurrency: fc.integer({ min: 1, max: 4 }),
  highWaterMark: fc.integer({ min: 1, max: 20 }),
  low: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  overflow: fc.constantFrom<Overflow>('wait', 'reject', 'dropOldest'),
  rate: fc.option(fc.record({ max: fc.integer({ min: 1, max: 3 }), per: fc.integer({ min: 1, max: 100 }) }), {
    nil: undefined,
  }),
})

test('whatever happens, promises settle, marks and rate hold, and order is kept', async () => {
  await fc.assert(
    fc.asyncProperty(
      setup,
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.boolean(),
      async ({ low, rate, ...options }, steps, drain) => {
        interface Item {
          readonly order: number
          readonly size: number
          readonly priority: number
        }
        const clock = new VirtualClock()
        const started: Item[] = []
        const startedAt: number[] = []
        const running: { resolve: () => void; reject: (error: unknown) => void }[] = []
        const queue = new LocalQueue<Item>({
          ...options,
          lowWaterMark: Math.floor(options.highWaterMark * low),
          ...(rate && { rate }),
          size: (item) => item.size,
          clock,
          run: (item) => {
            started.push(item)
            startedAt.push(clock.monotonic())
            return new Promise((resolve, reject) => running.push({ resolve, reject }))
          },
        })
        const crossings: string[] = []
        for (const name of ['full', 'ready'] as const) queue.on(name, () => crossings.push(name))
        const aborts: AbortController[] = []
        let open = 0
        let order = 0
        const follow = (promise: Promise<unknown>) => {
          open++
          const ended = () => void open--
          promise.then(ended, ended)
        }

        for (const step of steps) {
          switch (step.do) {
            case 'push':
            case 'tryPush': {
              const abort = new AbortController()
              const item = { order: order++, size: step.size, priority: step.priority }
              const before = queue.size
              const promise = queue[step.do](item, { priority: step.priority, signal: abort.signal })
              if (promise !== undefined) {
                follow(promise)
                aborts.push(abort)
                if (step.do === 'tryPush' && before > 0)
                  expect(queue.size).toBeLessThanOrEqual(options.highWaterMark)
              } else expect([queue.isFull, queue.size]).toEqual([true, before])
              break
            }
            case 'resolve':
            case 'reject':
              running.splice(step.which % (running.length || 1), 1)[0]?.[step.do](new Error('meant'))
              break
            case 'abort':
              aborts[step.which % (aborts.length || 1)]?.abort()
              break
            case 'ready':
              follow(queue.ready())
              break
            case 'advance':
              await clock.advance(step.ms)
          }
          await turn()
          expect(queue.size <= options.highWaterMark || queue.pending + queue.running === 1).toBe(true)
          expect(queue.running).toBeLessThanOrEqual(options.concurrency)
          if (queue.size >= options.highWaterMark) expect(queue.isFull).toBe(true)
        }

        if (drain) {
          // Nothing is stuck: when every run ends, all that was pushed gets its turn.
          for (let left = order; left >= 0; left--) {
            for (const run of running.splice(0)) run.resolve()
            await clock.advance(rate?.per ?? 0)
          }
          expect([open, queue.running]).toEqual([0, 0])
        }
        const closed = queue.close({ drain, grace: 1_000 })
        await clock.advance(1_000)
        await closed
        await turn()
        expect([open, queue.size, queue.pending, queue.running, queue.isFull]).toEqual([0, 0, 0, 0, false])
        expect(crossings).toEqual(crossings.map((_, i) => (i % 2 === 0 ? 'full' : 'ready')))
        expect(crossings.length % 2).toBe(0)
        for (const priority of [-1, 0, 1]) {
          const orders = started.filter((item) => item.priority === priority).map((item) => item.order)
          expect(orders).toEqual([...orders].sort((a, b) => a - b))
        }
        if (rate !== undefined) {
          for (const [i, at] of startedAt.slice(rate.max).entries())
            expect(at - (startedAt[i] as number)).toBeGreaterThanOrEqual(rate.per)
        }
      },
    ),
    { numRuns: 300 },
  )
})

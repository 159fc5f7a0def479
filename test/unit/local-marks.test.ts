import { QueueFullError } from 'millrace'
import type { LocalQueueOptions, Overflow } from 'millrace/local'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { codeOf, manual } from './local-queues.js'

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

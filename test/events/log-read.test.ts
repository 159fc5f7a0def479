/** What every log shows of its events. */
import { describe, expect, test } from 'vitest'
import { slotOf } from '../../src/events/slot.js'
import { append, freshLog, isShared, nameOf, namesOf, newAppend, newEvent, page, readAll } from './logs.js'

describe('a stream', () => {
  test('is read in pages, forwards and backwards', async () => {
    const { log } = await freshLog()
    await append(log, 's', 'none', 5)
    await append(log, 'other', 'none', 2)
    await append(log, 's', 5, 2)
    const read = async (after: number, backwards: boolean, limit = 3) => {
      const { events, version } = await log.stream({ stream: 's', after, backwards, limit })
      expect(version).toBe(7)
      expect(events.every(({ stream }) => stream === 's')).toBe(true)
      return events.map((event) => event.version)
    }
    expect(await read(0, false)).toEqual([1, 2, 3])
    expect(await read(3, false)).toEqual([4, 5, 6])
    expect(await read(6, false)).toEqual([7])
    expect(await read(7, false)).toEqual([])
    expect(await read(Number.MAX_SAFE_INTEGER, true)).toEqual([7, 6, 5])
    expect(await read(5, true, 10)).toEqual([4, 3, 2, 1])
    expect(await read(1, true)).toEqual([])
  })

  test('that is not there is empty, at version 0', async () => {
    const { log } = await freshLog()
    const query = { stream: 's', after: 0, backwards: false, limit: 10 }
    expect(await log.stream(query)).toEqual({ events: [], version: 0 })
  })
})

describe('all streams', () => {
  test('are read by position, in pages', async () => {
    const { log } = await freshLog()
    expect(await page(log)).toEqual({ events: [], through: 0, more: false, pending: false })
    for (const stream of ['a', 'b', 'a', 'c']) await append(log, stream, 'any', 2)
    const names = ['a@1', 'a@2', 'b@1', 'b@2', 'a@3', 'a@4', 'c@1', 'c@2']
    expect(await namesOf(log, { limit: 3 })).toEqual(names)
    expect(await namesOf(log, { limit: 1 })).toEqual(names)
    const first = await page(log, { limit: 3 })
    expect(first).toMatchObject({ through: first.events[2]?.position, more: true, pending: false })
    const rest = await page(log, { after: first.through, limit: 100 })
    expect(rest.events.map(nameOf)).toEqual(names.slice(3))
    expect(rest).toMatchObject({ through: rest.events.at(-1)?.position, more: false, pending: false })
    const nothing = await page(log, { after: rest.through })
    expect(nothing).toEqual({ events: [], through: rest.through, more: false, pending: false })
  })

  test('`limit` is how many are looked at, whatever is wanted of them', async () => {
    const { log } = await freshLog()
    for (let i = 0; i < 10; i++)
      await append(log, 's', 'any', [newEvent({ type: i === 9 ? 'rare' : 'common' })])
    const positions = (await readAll(log)).map(({ position }) => position)
    const first = await page(log, { types: ['rare'], limit: 4 })
    expect(first).toEqual({ events: [], through: positions[3], more: true, pending: false })
    expect(await namesOf(log, { types: ['rare'], limit: 4 })).toEqual(['s@10'])
    expect(await namesOf(log, { types: ['rare', 'common'], limit: 4 })).toHaveLength(10)
    expect(await namesOf(log, { types: ["ra'", ''] })).toEqual([])
    const none = await page(log, { types: [] })
    expect(none).toMatchObject({ events: [], through: positions[9], more: false })
  })

  test('are shared by their slots: each stream is in one part, in order', async () => {
    const { log } = await freshLog()
    const streams = Array.from({ length: 12 }, (_, i) => `account-${i}`)
    for (const stream of [...streams, ...streams]) await append(log, stream)
    const parts = await Promise.all(
      [0, 1, 2].map((part) => readAll(log, { share: { part, of: 3 }, limit: 5 })),
    )
    expect(parts.flat()).toHaveLength(24)
    parts.forEach((events, part) => {
      expect(events.every(({ stream }) => slotOf(stream) % 3 === part)).toBe(true)
      expect(events.map(({ position }) => position)).toEqual(
        events.map(({ position }) => position).sort((a, b) => a - b),
      )
    })
    const both = await page(log, { share: { part: 1, of: 3 }, types: ['happened'] })
    expect(both.events).toEqual(parts[1])
  })

  test('what others append is seen', async ({ skip }) => {
    skip(!isShared, 'nobody else is on these data')
    const { log, another } = await freshLog()
    const other = await another()
    await append(other, 'a')
    await append(log, 'b')
    expect(await namesOf(log)).toEqual(['a@1', 'b@1'])
    expect(await namesOf(other)).toEqual(['a@1', 'b@1'])
  })

  test('the end is the newest that can be read', async () => {
    const { log } = await freshLog()
    expect(await log.end()).toBe(0)
    await append(log, 'a', 'any', 3)
    await append(log, 'a', 1)
    const events = await readAll(log)
    expect(await log.end()).toBe(events.at(-1)?.position)
  })

  test('what is large comes whole', async () => {
    const { log } = await freshLog()
    const data = JSON.stringify('a\\"\u2028☃'.repeat(50_000))
    await log.append([newAppend('s', 'any', [newEvent({ data, meta: data }), newEvent()])])
    expect((await page(log)).events[0]).toMatchObject({ data, meta: data })
  })
})

describe('whoever listens', () => {
  test('hears of appends, and no more when it has left', async () => {
    const { log } = await freshLog()
    let times = 0
    const heard = new Promise<void>((resolve) => {
      const leave = log.subscribe(() => {
        times++
        leave()
        resolve()
      })
    })
    await append(log, 's')
    await heard
    await append(log, 's')
    await append(log, 's')
    expect(times).toBe(1)
  })

  test('hears of appends by others and by callers', async ({ skip }) => {
    skip(!isShared, 'nobody else is on these data')
    const { log, another, begin } = await freshLog()
    const other = await another()
    const heard = (one: typeof log) =>
      new Promise<void>((resolve) => {
        const leave = one.subscribe(() => {
          leave()
          resolve()
        })
      })
    const first = heard(log)
    await append(other, 's')
    await first
    const seen = heard(other)
    const transaction = await begin()
    await log.append([newAppend('s')], transaction.tx)
    await transaction.commit()
    await seen
  })

  test('one that throws keeps nobody from hearing', async () => {
    const { log } = await freshLog()
    const errors: unknown[] = []
    const before = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.once('uncaughtException', (error) => errors.push(error))
    try {
      log.subscribe(() => {
        throw new Error('deaf')
      })
      const heard = new Promise<void>((resolve) => log.subscribe(resolve))
      await append(log, 's')
      await heard
      await new Promise((resolve) => setImmediate(resolve))
      expect(errors).toMatchObject([{ message: 'deaf' }])
    } finally {
      for (const listener of before) process.on('uncaughtException', listener)
    }
  })
})

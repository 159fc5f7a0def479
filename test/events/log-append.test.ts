/** What every log does with appends. */
import { describe, expect, test } from 'vitest'
import type { AppendResult, Expected } from '../../src/events/log.js'
import { append, freshLog, isShared, namesOf, newAppend, newEvent, page, versionOf } from './logs.js'

describe('an append', () => {
  test('gives versions from 1 on, and positions that grow', async () => {
    const { log, clock } = await freshLog()
    const at = clock.now()
    const first = await append(log, 'order-1', 'none', 2)
    expect(first).toMatchObject({ status: 'appended', version: 2, at, repeated: false })
    const second = await append(log, 'order-1', 2)
    expect(second).toMatchObject({ status: 'appended', version: 3 })
    expect(positionOf(second)).toBeGreaterThan(positionOf(first))
    expect(await versionOf(log, 'order-1')).toBe(3)
  })

  test('keeps all that an event has', async () => {
    const { log, clock } = await freshLog()
    const event = newEvent({
      type: 'said',
      schema: 3,
      data: '{"é":"☃ \\u0000 \'\\\\ 𝄞"}',
      meta: '{"by":"ann"}',
    })
    const bare = newEvent({ data: '' })
    await append(log, "Straße 'x\\'-☃", 'any', [event, bare])
    const { events } = await page(log)
    const common = { stream: "Straße 'x\\'-☃", at: clock.now() }
    expect(events).toEqual([
      { ...event, ...common, version: 1, position: events[0]?.position },
      { ...bare, ...common, version: 2, position: events[1]?.position },
    ])
  })

  const cases: [string, Expected, number, 'appended' | 'conflict'][] = [
    ['any', 'any', 0, 'appended'],
    ['any', 'any', 2, 'appended'],
    ['none', 'none', 0, 'appended'],
    ['none', 'none', 2, 'conflict'],
    ['exists', 'exists', 0, 'conflict'],
    ['exists', 'exists', 2, 'appended'],
    ['version 0', 0, 0, 'appended'],
    ['version 0', 0, 2, 'conflict'],
    ['the version before', 1, 2, 'conflict'],
    ['its version', 2, 2, 'appended'],
    ['the version after', 3, 2, 'conflict'],
    ['version 1', 1, 0, 'conflict'],
  ]
  for (const [what, expected, version, status] of cases) {
    test(`that expects ${what} of a stream at version ${version}: ${status}`, async () => {
      const { log } = await freshLog()
      if (version > 0) await append(log, 's', 'none', version)
      const result = await append(log, 's', expected)
      expect(result).toMatchObject({ status, version: status === 'conflict' ? version : version + 1 })
      expect(await versionOf(log, 's')).toBe(status === 'conflict' ? version : version + 1)
    })
  }

  test('streams whose names differ in case or in blanks are different ones', async () => {
    const { log } = await freshLog()
    for (const name of ['a', 'A', 'a ', ' a', 'ä', 'a\u0308']) await append(log, name, 'none')
    expect((await page(log)).events.map(({ stream }) => stream)).toEqual([
      'a',
      'A',
      'a ',
      ' a',
      'ä',
      'a\u0308',
    ])
  })

  test('of those that expect the same version one wins, whoever asks', async () => {
    const { log, another } = await freshLog()
    const logs = isShared ? [log, await another()] : [log]
    for (let version = 0; version < 5; version++) {
      const tries = Array.from({ length: 6 }, (_, i) => append(logs[i % logs.length] ?? log, 's', version))
      const results = await Promise.all(tries)
      expect(results.filter(({ status }) => status === 'appended')).toHaveLength(1)
      for (const result of results) if (result.status === 'conflict') expect(result.version).toBe(version + 1)
    }
    expect(await namesOf(log)).toEqual(['s@1', 's@2', 's@3', 's@4', 's@5'])
  })
})

describe('appends of one call', () => {
  test('each is accepted or refused by itself', async () => {
    const { log } = await freshLog()
    await append(log, 'a', 'none', 2)
    const results = await log.append([
      newAppend('b', 'exists'),
      newAppend('a', 2, 2),
      newAppend('c', 'none'),
      newAppend('a', 3),
      newAppend('a', 4),
      newAppend('c', 'any', 2),
    ])
    expect(results.map(({ status, version }) => [status, version])).toEqual([
      ['conflict', 0],
      ['appended', 4],
      ['appended', 1],
      ['conflict', 4],
      ['appended', 5],
      ['appended', 3],
    ])
    expect(await namesOf(log)).toHaveLength(8)
    expect(await versionOf(log, 'b')).toBe(0)
  })

  test('no more than none is fine', async () => {
    const { log } = await freshLog()
    expect(await log.append([])).toEqual([])
  })

  test('many at once, of many calls, on few streams: nothing is lost and all are in order', async () => {
    const { log } = await freshLog()
    const calls = Array.from({ length: 40 }, (_, i) =>
      log.append([newAppend(`s-${i % 3}`, 'any', 1 + (i % 4))]),
    )
    const results = (await Promise.all(calls)).flat()
    expect(results.every(({ status }) => status === 'appended')).toBe(true)
    const { events } = await page(log, { limit: 1000 })
    expect(events).toHaveLength(100)
    for (const stream of ['s-0', 's-1', 's-2']) {
      const versions = events.filter((event) => event.stream === stream).map(({ version }) => version)
      expect(versions).toEqual(versions.map((_, i) => i + 1))
    }
  })
})

describe('asked for again', () => {
  test('an append answers as it did, whatever came after it', async () => {
    const { log, clock } = await freshLog()
    const given = newAppend('s', 'none', 3)
    const [first] = await log.append([given])
    await append(log, 's')
    clock.jump(1000)
    expect(await log.append([given])).toEqual([{ ...first, repeated: true }])
    expect(await versionOf(log, 's')).toBe(4)
  })

  test('also within one call, and at the same moment', async () => {
    const { log, another } = await freshLog()
    const given = newAppend('s', 'any', 2)
    const [once, again] = await log.append([given, given])
    expect(again).toEqual({ ...once, repeated: true })
    const next = newAppend('s', 2, 1)
    const logs = isShared ? [log, await another()] : [log, log]
    const results = (await Promise.all(logs.map((one) => one.append([next])))).flat()
    expect(results.map((result) => (result as { repeated?: boolean }).repeated).sort()).toEqual([false, true])
    expect(new Set(results.map(positionOf)).size).toBe(1)
    expect(await versionOf(log, 's')).toBe(3)
  })

  test('one that was refused is tried anew', async () => {
    const { log } = await freshLog()
    const given = newAppend('s', 1)
    expect(await log.append([given])).toEqual([{ status: 'conflict', version: 0 }])
    await append(log, 's', 'none')
    expect(await log.append([given])).toMatchObject([{ status: 'appended', version: 2, repeated: false }])
  })

  test('an id of another stream is refused, with all of its call and nothing else', async () => {
    const { log } = await freshLog()
    const given = newAppend('a', 'none', 2)
    await log.append([given])
    const [taken, others] = await Promise.allSettled([
      log.append([newAppend('b'), { ...given, stream: 'c' }, newAppend('d')]),
      log.append([newAppend('e')]),
    ])
    expect(taken).toMatchObject({
      status: 'rejected',
      reason: { code: 'STORE_REFUSED', field: 'id', value: given.id },
    })
    expect(others).toMatchObject({ status: 'fulfilled', value: [{ status: 'appended', version: 1 }] })
    expect(await namesOf(log)).toEqual(['a@1', 'a@2', 'e@1'])
    expect(await versionOf(log, 'c')).toBe(0)
  })

  test('an id that a later event of an append has is refused as well', async () => {
    const { log } = await freshLog()
    const [first, second] = [newEvent(), newEvent()]
    await append(log, 'a', 'none', [first, second])
    await expect(append(log, 'b', 'any', [newEvent(), second])).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      field: 'id',
      value: second.id,
    })
    await expect(append(log, 'a', 'any', [newEvent(), second])).rejects.toMatchObject({
      code: 'STORE_REFUSED',
    })
    expect(await versionOf(log, 'b')).toBe(0)
    expect(await versionOf(log, 'a')).toBe(2)
  })
})

function positionOf(result: AppendResult): number {
  if (result.status !== 'appended') throw new Error(`a ${result.status}`)
  return result.position
}

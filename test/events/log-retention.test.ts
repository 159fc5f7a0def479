/** What every log keeps of snapshots, and how events go. */
import { describe, expect, test } from 'vitest'
import type { EventLog, SnapshotRecord, SurplusQuery } from '../../src/events/log.js'
import { append, freshLog, nameOf, namesOf, newAppend, versionOf } from './logs.js'

function record(more: Partial<SnapshotRecord> = {}): SnapshotRecord {
  return { stream: 's', name: 'account', schema: 1, version: 10, state: '{"n":1}', ...more }
}

describe('a snapshot', () => {
  test('is kept instead of an older one, not instead of a newer one', async () => {
    const { log } = await freshLog()
    await log.append([newAppend('s', 'none', 12)])
    expect(await log.snapshot('s', 'account')).toBeUndefined()
    await log.keepSnapshot(record())
    expect(await log.snapshot('s', 'account')).toEqual(record())
    await log.keepSnapshot(record({ version: 9, state: 'older' }))
    expect(await log.snapshot('s', 'account')).toEqual(record())
    const newer = record({ version: 11, schema: 2, state: 'newer' })
    await log.keepSnapshot(newer)
    expect(await log.snapshot('s', 'account')).toEqual(newer)
    const same = record({ version: 11, schema: 3, state: 'of another form' })
    await log.keepSnapshot(same)
    expect(await log.snapshot('s', 'account')).toEqual(same)
    await log.keepSnapshot(record({ version: 12, schema: 2, state: 'of an older deploy' }))
    expect(await log.snapshot('s', 'account')).toEqual(same)
  })

  test('is not kept of what is not there, or was erased meanwhile', async () => {
    const { log } = await freshLog()
    await log.append([newAppend('s', 'none', 10)])
    await log.keepSnapshot(record({ version: 11 }))
    expect(await log.snapshot('s', 'account')).toBeUndefined()
    while (!(await log.erase('s', 3)));
    await log.keepSnapshot(record())
    expect(await log.snapshot('s', 'account')).toBeUndefined()
  })

  test('is one stream’s and one aggregate’s', async () => {
    const { log } = await freshLog()
    await log.append([newAppend('s', 'none', 12), newAppend('t', 'none', 12)])
    const others = [record({ name: 'order' }), record({ stream: 't' })]
    for (const snapshot of [record(), ...others]) await log.keepSnapshot(snapshot)
    await log.keepSnapshot(record({ version: 12 }))
    expect(await log.snapshot('s', 'order')).toEqual(others[0])
    expect(await log.snapshot('t', 'account')).toEqual(others[1])
    expect(await log.snapshot('t', 'order')).toBeUndefined()
  })
})

const query: SurplusQuery = {
  category: 'order',
  age: 100,
  superseded: false,
  through: Number.MAX_SAFE_INTEGER,
  limit: 100,
}

async function surplus(log: EventLog, more: Partial<SurplusQuery> = {}): Promise<string[]> {
  return (await log.surplus({ ...query, ...more })).events.map(nameOf)
}

describe('surplus events', () => {
  test('are those of a category: what comes before the first dash', async () => {
    const { log, clock } = await freshLog()
    const streams = [
      'order',
      'order-1',
      'order-1-a',
      'order-é',
      'order!',
      'order.',
      'orders-1',
      'Order-1',
      'or',
      'a-order',
    ]
    for (const stream of streams) await append(log, stream)
    clock.jump(1000)
    expect(await surplus(log)).toEqual(['order@1', 'order-1@1', 'order-1-a@1', 'order-é@1'])
    expect(await surplus(log, { category: 'order!' })).toEqual(['order!@1'])
    expect(await surplus(log, { category: 'a' })).toEqual(['a-order@1'])
    expect(await surplus(log, { category: 'none' })).toEqual([])
  })

  test('are older than the policy says, and not beyond what was seen', async () => {
    const { log, clock } = await freshLog()
    const positions: number[] = []
    for (let i = 0; i < 4; i++) {
      const result = await append(log, `order-${i % 2}`)
      positions.push((result as { position: number }).position)
      clock.jump(50)
    }
    expect(await surplus(log)).toEqual(['order-0@1', 'order-1@1'])
    expect(await surplus(log, { age: 99 })).toEqual(['order-0@1', 'order-1@1', 'order-0@2'])
    expect(await surplus(log, { age: 0, through: positions[2] as number })).toEqual([
      'order-0@1',
      'order-1@1',
      'order-0@2',
    ])
    expect(await surplus(log, { age: 0, limit: 1 })).toEqual(['order-0@1'])
    expect(await surplus(log, { age: 0, through: 0 })).toEqual([])
  })

  test('are all but the latest of each stream, when that is what is wanted', async () => {
    const { log, clock } = await freshLog()
    await append(log, 'order-1', 'any', 3)
    await append(log, 'order-2')
    await append(log, 'other-1', 'any', 2)
    await append(log, 'order-1')
    clock.jump(1000)
    expect(await surplus(log, { superseded: true })).toEqual(['order-1@1', 'order-1@2', 'order-1@3'])
    const { events: found } = await log.surplus({ ...query, superseded: true })
    await log.remove(found.map(({ position }) => position))
    expect(await surplus(log, { superseded: true })).toEqual([])
    expect(await namesOf(log)).toEqual(['order-2@1', 'other-1@1', 'other-1@2', 'order-1@4'])
  })

  test('come in bounded portions until all of them are gone', async () => {
    const { log, clock } = await freshLog()
    for (let i = 0; i < 30; i++) await append(log, `order-${i % 7}`, 'any', 2)
    await append(log, 'kept-1', 'any', 3)
    clock.jump(1000)
    const seen: string[] = []
    for (;;) {
      const { events: found } = await log.surplus({ ...query, limit: 8 })
      if (found.length === 0) break
      expect(found.length).toBeLessThanOrEqual(8)
      expect(await surplus(log, { limit: 8 }), 'they are surplus until they are removed').toEqual(
        found.map(nameOf),
      )
      seen.push(...found.map(nameOf))
      await log.remove(found.map(({ position }) => position))
    }
    expect(seen).toHaveLength(60)
    for (let i = 0; i < 7; i++) {
      const own = seen.filter((name) => name.startsWith(`order-${i}@`))
      expect(own, 'the oldest of a stream first').toEqual(own.map((_, n) => `order-${i}@${n + 1}`))
    }
    expect(await namesOf(log)).toEqual(['kept-1@1', 'kept-1@2', 'kept-1@3'])
  })
})

describe('what is removed', () => {
  test('leaves versions and positions of the others as they were', async () => {
    const { log } = await freshLog()
    const events = 5
    await append(log, 's', 'none', events)
    const { events: before } = await log.stream({ stream: 's', after: 0, backwards: false, limit: 10 })
    const gone = [before[0], before[2], before[4]].map((event) => event?.position as number)
    await log.remove(gone)
    await log.remove(gone)
    await log.remove([])
    const { events: left, version } = await log.stream({ stream: 's', after: 0, backwards: false, limit: 10 })
    expect(left).toEqual([before[1], before[3]])
    expect(version).toBe(5)
    expect(await append(log, 's', 'none')).toEqual({ status: 'conflict', version: 5 })
    const next = await append(log, 's', 5)
    expect(next).toMatchObject({ version: 6 })
    expect((next as { position: number }).position).toBeGreaterThan(before[4]?.position as number)
    expect(await namesOf(log)).toEqual(['s@2', 's@4', 's@6'])
    expect(await namesOf(log, { limit: 1 })).toEqual(['s@2', 's@4', 's@6'])
  })

  test('what a stream needs beside its snapshot stays', async () => {
    const { log, clock } = await freshLog()
    await log.append([newAppend('order-1', 'none', 5), newAppend('order-2', 'none', 2)])
    await log.keepSnapshot(record({ stream: 'order-1', version: 3 }))
    await log.keepSnapshot(record({ stream: 'order-1', version: 2, name: 'other' }))
    clock.jump(1_000)
    expect(await surplus(log)).toEqual(['order-1@1', 'order-1@2', 'order-2@1', 'order-2@2'])
    expect(await surplus(log, { superseded: true })).toEqual([
      'order-1@1',
      'order-1@2',
      'order-1@3',
      'order-1@4',
      'order-2@1',
    ])
  })

  test('whole streams go in bounded steps, with their snapshots; their versions stay', async () => {
    const { log } = await freshLog()
    await log.append([newAppend('s', 'none', 5), newAppend('t', 'none', 2)])
    await log.keepSnapshot(record({ version: 4 }))
    await log.keepSnapshot(record({ version: 4, name: 'other' }))
    await log.keepSnapshot(record({ version: 1, stream: 't' }))
    expect(await log.erase('s', 3)).toBe(false)
    expect(await namesOf(log)).toHaveLength(4)
    expect(await log.erase('s', 3)).toBe(true)
    expect(await log.erase('s', 3)).toBe(true)
    expect(await log.erase('never there', 3)).toBe(true)
    expect(await namesOf(log)).toEqual(['t@1', 't@2'])
    expect(await log.snapshot('s', 'account')).toBeUndefined()
    expect(await log.snapshot('s', 'other')).toBeUndefined()
    expect(await log.snapshot('t', 'account')).toBeDefined()
    expect(await versionOf(log, 's')).toBe(5)
    expect(await append(log, 's', 5)).toMatchObject({ status: 'appended', version: 6 })
  })
})

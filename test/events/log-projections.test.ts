/** What every log keeps of projections: generations, checkpoints and leases. */
import { describe, expect, test } from 'vitest'
import type { EventLog, HoldRequest } from '../../src/events/log.js'
import { append, type FreshLog, freshLog, isShared } from './logs.js'

const part = { name: 'p', generation: 1, part: 0 }

function request(token: string, more: Partial<HoldRequest> = {}): HoldRequest {
  return { ...part, token, owner: `worker ${token}`, lease: 1000, ...more }
}

function advance(log: EventLog, token: string, position: number, done = false) {
  return log.advance({ ...part, token, position, done })
}

async function withProjection(parts = 1): Promise<FreshLog> {
  const fresh = await freshLog()
  await fresh.log.declare({ name: 'p', parts, after: 0 })
  return fresh
}

describe('a projection', () => {
  test('is declared once, and stays as it was', async () => {
    const { log } = await freshLog()
    const record = {
      name: 'p',
      parts: 2,
      live: 1,
      building: undefined,
      checkpoints: [
        { generation: 1, part: 0, position: 7, owner: undefined },
        { generation: 1, part: 1, position: 7, owner: undefined },
      ],
    }
    expect(await log.declare({ name: 'p', parts: 2, after: 7 })).toEqual({ ...record, fresh: true })
    expect(await log.declare({ name: 'p', parts: 3, after: 0 })).toEqual({ ...record, fresh: false })
    expect(await log.projections()).toEqual([record])
  })

  test('one of many who declare it at once finds it fresh', async () => {
    const { log, another } = await freshLog()
    const logs = isShared ? [log, await another(), await another()] : [log]
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) =>
        (logs[i % logs.length] as EventLog).declare({ name: 'p', parts: 2, after: 0 }),
      ),
    )
    expect(answers.filter(({ fresh }) => fresh)).toHaveLength(1)
    for (const answer of answers) expect(answer.checkpoints).toHaveLength(2)
  })

  test('is forgotten, and may come again', async () => {
    const { log } = await withProjection(2)
    await log.declare({ name: 'q', parts: 1, after: 0 })
    await log.forget('p')
    await log.forget('p')
    expect((await log.projections()).map(({ name }) => name)).toEqual(['q'])
    expect(await log.hold(request('a'))).toBeUndefined()
    expect(await log.declare({ name: 'p', parts: 1, after: 4 })).toMatchObject({
      fresh: true,
      checkpoints: [{ position: 4 }],
    })
  })
})

describe('a lease', () => {
  test('is one worker’s until it runs out', async () => {
    const { log, clock, another } = await withProjection()
    const other = isShared ? await another() : log
    expect(await log.hold(request('a'))).toEqual({ position: 0 })
    expect(await other.hold(request('b'))).toBeUndefined()
    clock.jump(999)
    expect(await other.hold(request('b'))).toBeUndefined()
    clock.jump(1)
    expect(await other.hold(request('b'))).toEqual({ position: 0 })
    expect(await log.hold(request('a'))).toBeUndefined()
    expect(await advance(log, 'a', 3)).toBe('lost')
    expect(await advance(other, 'b', 4)).toBe('advanced')
  })

  test('is renewed by the same token', async () => {
    const { log, clock } = await withProjection()
    await log.hold(request('a'))
    clock.jump(900)
    expect(await advance(log, 'a', 2)).toBe('advanced')
    expect(await log.hold(request('a', { lease: 500 }))).toEqual({ position: 2 })
    clock.jump(499)
    expect(await log.hold(request('b'))).toBeUndefined()
    expect(await advance(log, 'a', 3)).toBe('advanced')
    clock.jump(1)
    expect(await advance(log, 'a', 4), 'it has run out').toBe('lost')
    expect(await log.hold(request('a')), 'nobody else has it').toEqual({ position: 3 })
  })

  test('is given back when it is done', async () => {
    const { log } = await withProjection()
    await log.hold(request('a'))
    expect(await advance(log, 'a', 5, true)).toBe('advanced')
    expect(await advance(log, 'a', 6)).toBe('lost')
    expect(await log.hold(request('b'))).toEqual({ position: 5 })
  })

  test('shows its owner while it stands', async () => {
    const { log, clock } = await withProjection(2)
    await log.hold(request('a', { part: 1 }))
    const owners = async () => (await log.projections())[0]?.checkpoints.map(({ owner }) => owner)
    expect(await owners()).toEqual([undefined, 'worker a'])
    clock.jump(1000)
    expect(await owners()).toEqual([undefined, undefined])
  })

  test('of one part says nothing of the others, and none is there of what is not', async () => {
    const { log } = await withProjection(2)
    expect(await log.hold(request('a'))).toBeDefined()
    expect(await log.hold(request('b', { part: 1 }))).toBeDefined()
    for (const missing of [{ part: 2 }, { generation: 2 }, { name: 'q' }]) {
      expect(await log.hold(request('c', missing))).toBeUndefined()
      const gone = { ...part, ...missing, token: 'c', position: 1, done: false }
      expect(await log.advance(gone)).toBe('lost')
    }
  })

  test('of many who ask at once, one gets it', async () => {
    const { log, another } = await withProjection()
    const logs = isShared ? [log, await another(), await another()] : [log]
    const answers = await Promise.all(
      Array.from({ length: 9 }, (_, i) => (logs[i % logs.length] as EventLog).hold(request(`t${i}`))),
    )
    expect(answers.filter((held) => held !== undefined)).toHaveLength(1)
  })
})

describe('a rebuild', () => {
  test('builds a generation beside the live one, then takes its place', async () => {
    const { log } = await withProjection(2)
    await append(log, 's')
    await log.hold(request('a'))
    await advance(log, 'a', 1)
    const begun = await log.rebuild({ do: 'begin', name: 'p' })
    expect(begun).toMatchObject({ live: 1, building: 2 })
    expect(begun.checkpoints.map(({ generation, part: of, position }) => [generation, of, position])).toEqual(
      [
        [1, 0, 1],
        [1, 1, 0],
        [2, 0, 0],
        [2, 1, 0],
      ],
    )
    const building = { ...part, generation: 2 }
    expect(await log.hold(request('b', building))).toEqual({ position: 0 })
    expect(await log.advance({ ...building, token: 'b', position: 1, done: false })).toBe('advanced')
    const swapped = await log.rebuild({ do: 'swap', name: 'p', generation: 2 })
    expect(swapped).toMatchObject({ live: 2, building: undefined })
    expect(swapped.checkpoints).toEqual([
      { generation: 2, part: 0, position: 1, owner: 'worker b' },
      { generation: 2, part: 1, position: 0, owner: undefined },
    ])
    expect(await log.projections()).toEqual([swapped])
    expect(await advance(log, 'a', 2), 'the old one has no checkpoint any more').toBe('lost')
    expect(await log.advance({ ...building, token: 'b', position: 2, done: true })).toBe('advanced')
    expect(await log.rebuild({ do: 'begin', name: 'p' })).toMatchObject({ live: 2, building: 3 })
  })

  test('is given up without a trace', async () => {
    const { log } = await withProjection()
    const before = await log.projections()
    await log.rebuild({ do: 'begin', name: 'p' })
    await log.hold(request('a', { generation: 2 }))
    await log.rebuild({ do: 'abandon', name: 'p', generation: 2 })
    expect(await log.projections()).toEqual(before)
    await log.rebuild({ do: 'begin', name: 'p' })
    const gone = { ...part, generation: 2, token: 'a', position: 1, done: false }
    expect(await log.advance(gone), 'it was another one').toBe('lost')
  })

  test('is refused when it cannot be', async () => {
    const { log } = await withProjection()
    const refused = { code: 'STORE_REFUSED', field: 'projection' }
    await expect(log.rebuild({ do: 'begin', name: 'q' })).rejects.toMatchObject(refused)
    await expect(log.rebuild({ do: 'swap', name: 'p', generation: 2 })).rejects.toMatchObject(refused)
    await expect(log.rebuild({ do: 'abandon', name: 'p', generation: 1 })).rejects.toMatchObject(refused)
    const record = await log.rebuild({ do: 'begin', name: 'p' })
    await expect(log.rebuild({ do: 'begin', name: 'p' })).rejects.toMatchObject(refused)
    await expect(log.rebuild({ do: 'swap', name: 'p', generation: 1 })).rejects.toMatchObject(refused)
    await expect(log.rebuild({ do: 'abandon', name: 'p', generation: 3 })).rejects.toMatchObject(refused)
    expect(await log.projections()).toEqual([record])
  })

  test('one of many who begin it at once does', async () => {
    const { log, another } = await withProjection()
    const logs = isShared ? [log, await another()] : [log]
    const answers = await Promise.allSettled(
      Array.from({ length: 6 }, (_, i) =>
        (logs[i % logs.length] as EventLog).rebuild({ do: 'begin', name: 'p' }),
      ),
    )
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect((await log.projections())[0]?.checkpoints).toHaveLength(2)
  })
})

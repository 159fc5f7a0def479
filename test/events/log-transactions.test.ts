/** What every log does in transactions, of its own and of callers. */
import { describe, expect, test } from 'vitest'
import type { Append, AppendResult, EventLog } from '../../src/events/log.js'
import {
  append,
  engine,
  type FreshLog,
  freshLog,
  isShared,
  namesOf,
  newAppend,
  newEvent,
  page,
  versionOf,
} from './logs.js'

const kinds: [string, (fresh: FreshLog) => ReturnType<FreshLog['begin']>][] = [
  ['of the log', ({ log }) => log.begin()],
  ...(isShared ? ([["of the caller's", ({ begin }: FreshLog) => begin()]] as never) : []),
]

/** What is appended in a transaction, whether the engine answers at once or not. */
async function appendIn(log: EventLog, tx: unknown, ...appends: Append[]): Promise<AppendResult[]> {
  return log.append(appends, tx)
}

for (const [whose, beginIn] of kinds) {
  describe(`a transaction ${whose}`, () => {
    test('that commits has appended', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      await append(log, 'a')
      const transaction = await beginIn(fresh)
      const first = await appendIn(log, transaction.tx, newAppend('a', 1, 2), newAppend('b', 'none'))
      expect(first).toMatchObject([
        { status: 'appended', version: 3, at: fresh.clock.now(), repeated: false },
        { status: 'appended', version: 1 },
      ])
      expect(await appendIn(log, transaction.tx, newAppend('a', 3))).toMatchObject([{ version: 4 }])
      expect(await namesOf(log), 'not before').toEqual(['a@1'])
      await transaction.commit()
      expect(await namesOf(log)).toEqual(['a@1', 'a@2', 'a@3', 'b@1', 'a@4'])
      expect(await append(log, 'a', 4)).toMatchObject({ status: 'appended' })
    })

    test('that rolls back has not', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      await append(log, 'a')
      const given = newAppend('a', 1)
      const transaction = await beginIn(fresh)
      await appendIn(log, transaction.tx, given, newAppend('b'))
      await transaction.rollback()
      expect(await namesOf(log)).toEqual(['a@1'])
      expect(await versionOf(log, 'b')).toBe(0)
      expect(await log.append([given])).toMatchObject([{ status: 'appended', version: 2, repeated: false }])
      expect(await namesOf(log)).toEqual(['a@1', 'a@2'])
    })

    test('goes on after a conflict', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      await append(log, 'a', 'none', 2)
      const transaction = await beginIn(fresh)
      expect(await appendIn(log, transaction.tx, newAppend('a', 'none'), newAppend('b', 1))).toEqual([
        { status: 'conflict', version: 2 },
        { status: 'conflict', version: 0 },
      ])
      expect(await appendIn(log, transaction.tx, newAppend('a', 2))).toMatchObject([{ version: 3 }])
      await transaction.commit()
      expect(await namesOf(log)).toEqual(['a@1', 'a@2', 'a@3'])
      expect(await versionOf(log, 'b')).toBe(0)
    })

    test('goes on after an id that is taken, without anything of that call', async ({ skip }) => {
      skip(engine === 'memory', 'the memory log keeps what came before it in the call')
      const fresh = await freshLog()
      const { log } = fresh
      const taken = newAppend('a')
      await log.append([taken])
      const transaction = await beginIn(fresh)
      const refused = async () => appendIn(log, transaction.tx, newAppend('b'), { ...taken, stream: 'c' })
      await expect(refused()).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'id', value: taken.id })
      expect(await appendIn(log, transaction.tx, newAppend('d'))).toMatchObject([{ version: 1 }])
      await transaction.commit()
      expect(await namesOf(log)).toEqual(['a@1', 'd@1'])
    })

    test('knows what it has appended itself', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      const given = newAppend('a', 'any', 2)
      const transaction = await beginIn(fresh)
      const [first] = await appendIn(log, transaction.tx, given)
      expect(await appendIn(log, transaction.tx, given)).toEqual([{ ...first, repeated: true }])
      await transaction.commit()
      expect(await log.append([given])).toEqual([{ ...first, repeated: true }])
      expect(await versionOf(log, 'a')).toBe(2)
    })

    test('takes a checkpoint with it', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      await log.declare({ name: 'p', parts: 1, after: 0 })
      const part = { name: 'p', generation: 1, part: 0, token: 't' }
      await log.hold({ ...part, owner: 'w', lease: 1000 })
      const positions = async () => (await log.projections())[0]?.checkpoints.map(({ position }) => position)
      for (const [end, expected] of [
        ['rollback', 0],
        ['commit', 5],
      ] as const) {
        const transaction = await beginIn(fresh)
        expect(await log.advance({ ...part, position: 5, done: false }, transaction.tx)).toBe('advanced')
        expect(await positions()).toEqual([0])
        await transaction[end]()
        expect(await positions()).toEqual([expected])
      }
      const transaction = await beginIn(fresh)
      fresh.clock.jump(1000)
      expect(await log.advance({ ...part, position: 6, done: false }, transaction.tx)).toBe('lost')
      await transaction.rollback()
    })

    test('holds up readers only where their positions come after its own', async () => {
      const fresh = await freshLog()
      const { log } = fresh
      const before = await append(log, 'a')
      const transaction = await beginIn(fresh)
      await appendIn(log, transaction.tx, newAppend('b'))
      expect(await namesOf(log)).toEqual(['a@1'])
      expect(await log.end()).toBe((before as { position: number }).position)
      await transaction.commit()
      expect(await namesOf(log)).toEqual(['a@1', 'b@1'])
    })
  })
}

describe('a transaction of the log', () => {
  test('others hear of what it has appended', async () => {
    const { log } = await freshLog()
    const heard = new Promise<void>((resolve) => log.subscribe(resolve))
    const transaction = await log.begin()
    await appendIn(log, transaction.tx, newAppend('a'))
    await transaction.commit()
    await heard
  })

  test('takes a rebuild, a projection and its end with it', async () => {
    const { log } = await freshLog()
    const given = { name: 'p', parts: 2, after: 3 }
    const first = await log.begin()
    expect(await log.declare(given, first.tx)).toMatchObject({ fresh: true, live: 1 })
    await first.rollback()
    expect(await log.projections()).toEqual([])
    const second = await log.begin()
    await log.declare(given, second.tx)
    await second.commit()
    expect(await log.declare(given)).toMatchObject({ fresh: false })
    const third = await log.begin()
    expect(await log.rebuild({ do: 'begin', name: 'p' }, third.tx)).toMatchObject({ live: 1, building: 2 })
    await third.rollback()
    expect(await log.projections()).toMatchObject([{ building: undefined }])
    await log.rebuild({ do: 'begin', name: 'p' })
    const fourth = await log.begin()
    await log.rebuild({ do: 'swap', name: 'p', generation: 2 }, fourth.tx)
    await fourth.commit()
    expect(await log.projections()).toMatchObject([{ live: 2, building: undefined }])
    const fifth = await log.begin()
    await log.forget('p', fifth.tx)
    await fifth.commit()
    expect(await log.projections()).toEqual([])
  })

  test('is not used any more when it is over', async () => {
    const { log } = await freshLog()
    for (const end of ['commit', 'rollback'] as const) {
      const transaction = await log.begin()
      const { tx } = transaction
      await transaction[end]()
      await expect(appendIn(log, tx, newAppend('a'))).rejects.toMatchObject({ code: 'STORE_REFUSED' })
    }
    expect(await namesOf(log)).toEqual([])
  })

  test('a second one waits, or does not, and both do as they are told', async () => {
    const { log } = await freshLog()
    const first = await log.begin()
    const second = log.begin()
    await appendIn(log, first.tx, newAppend('a'))
    await first.commit()
    const next = await second
    await appendIn(log, next.tx, newAppend('a', 1))
    await next.commit()
    expect(await versionOf(log, 'a')).toBe(2)
  })

  test('writes of others go on when it has ended', async () => {
    const { log } = await freshLog()
    const transaction = await log.begin()
    await appendIn(log, transaction.tx, newAppend('a', 'none'))
    const waiting = append(log, 'a', 1)
    await transaction.commit()
    expect(await waiting).toMatchObject({ status: 'appended', version: 2 })
  })
})

describe('what is no transaction', () => {
  test('is refused', async () => {
    const { log } = await freshLog()
    for (const tx of [{}, 'tx', null, 0])
      await expect(appendIn(log, tx, newAppend('a'))).rejects.toMatchObject({
        code: 'STORE_REFUSED',
        field: 'tx',
      })
    expect((await page(log)).events).toEqual([])
  })

  test('events keep their order when one transaction has appended to a stream twice', async () => {
    const { log } = await freshLog()
    const transaction = await log.begin()
    await appendIn(log, transaction.tx, newAppend('a', 'any', [newEvent(), newEvent()]))
    await appendIn(log, transaction.tx, newAppend('b'), newAppend('a', 2))
    await transaction.commit()
    expect(await namesOf(log)).toEqual(['a@1', 'a@2', 'b@1', 'a@3'])
  })
})

/** Rebuilds whose handlers fail, and whose leases are lost at a bad moment. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { slotOf } from '../../src/events/slot.js'
import { gate, summed } from './followers.js'
import { codeOf, deposits, storeOn, withVerbs } from './stores.js'

const inPart = (part: number) =>
  Array.from({ length: 100 }, (_, i) => `account-${i}`).find((name) => slotOf(name) % 2 === part) as string

describe('a rebuild', () => {
  test('whose swap fails waits for the handlers that run before it goes on', async () => {
    const [entered, again, leave, paused] = [gate(), gate(), gate(), gate()]
    let [running, most] = [0, 0]
    const { store, projection, anotherLog } = await summed(
      async ({ stream }, { generation }) => {
        if (generation === 1 || stream !== inPart(1)) return
        most = Math.max(most, ++running)
        if (running > 1) again.open()
        entered.open()
        await leave.passed
        running--
      },
      { parts: 2, transactional: false },
    )
    await deposits(store, inPart(0), 1)
    await deposits(store, inPart(1), 1)
    await store.catchUp()
    const log = await anotherLog()
    let lost = false
    const unlucky = withVerbs(log, {
      hold: async (request) => {
        // With the last of the live parts in hand the swap pauses what is built.
        if (request.generation === 1 && request.part === 1) setImmediate(paused.open)
        return log.hold(request)
      },
      advance: async (request, tx) => {
        if (request.generation !== 2 || request.part !== 0 || lost) return log.advance(request, tx)
        await Promise.all([entered.passed, paused.passed])
        await sleep(20)
        lost = true
        return 'lost'
      },
    })
    const stop = new AbortController()
    const rebuilding = codeOf(
      (await storeOn(unlucky, { projections: [projection] })).rebuild(projection, { signal: stop.signal }),
    )
    await paused.passed
    // If it began anew it would do so within this time.
    await Promise.race([again.passed, sleep(400)])
    expect([lost, most]).toEqual([true, 1])
    stop.abort(new Error('stopped'))
    leave.open()
    expect(await rebuilding).toBe('stopped')
  })

  test('rejects when a handler throws again and again; the next one goes on', async () => {
    const { store, projection, process, read, seen, errors } = await summed()
    await deposits(store, 'account-1', 4)
    await store.catchUp()
    // An append that had to be asked for again leaves a gap.
    const positions: number[] = []
    for await (const { position } of store.readAll()) positions.push(position)
    let fails = true
    const broken = await process(({ version }) => {
      if (version === 3 && fails) throw new Error('a bug')
    })
    seen.length = 0
    expect(await codeOf(broken.rebuild(projection.name, { tries: 3 }))).toBe('a bug')
    expect(errors.flatMap(({ tries = [] }) => tries).at(-1)).toBe(3)
    expect((await store.stats()).projections[0]).toMatchObject({
      generation: 1,
      building: { generation: 2, position: positions[1] },
    })
    expect(await read()).toEqual(['account-1: 10/4'])
    fails = false
    seen.length = 0
    expect((await broken.rebuild(projection.name)).generation).toBe(2)
    expect(seen).toEqual(['account-1@3', 'account-1@4'])
    expect(await read()).toEqual(['account-1: 10/4'])
  })

  test('sets aside what fails again and again where that is wanted', async () => {
    const { store, projection, read } = await summed(
      ({ version }, { generation }) => {
        if (version === 2 && generation === 2) throw new Error('poison')
      },
      { skip: { after: 5 } },
    )
    await deposits(store, 'account-1', 3)
    await store.catchUp()
    expect((await store.rebuild(projection, { tries: 2 })).generation).toBe(2)
    expect(await read()).toEqual(['account-1: 4/2'])
  })

  test('does not handle again what a commit has done whose answer was lost just before the swap', async () => {
    const { store, projection, anotherLog, read } = await summed()
    await deposits(store, 'account-1', 3)
    await store.catchUp()
    const log = await anotherLog()
    const paused = gate()
    let isLost = false
    const lossy = withVerbs(log, {
      hold: async (request) => {
        if (request.generation === 1) setImmediate(paused.open)
        return log.hold(request)
      },
      begin: async () => {
        const transaction = await log.begin()
        const commit = async () => {
          await transaction.commit()
          if (isLost || !(await hasMoved())) return
          isLost = true
          await paused.passed
          throw new Error('the answer is lost')
        }
        return { tx: transaction.tx, commit, rollback: () => transaction.rollback() }
      },
    })
    const hasMoved = async () => {
      const checkpoints = (await log.projections()).flatMap((record) => record.checkpoints)
      return checkpoints.some(({ generation, position }) => generation === 2 && position > 0)
    }
    const rebuilding = await storeOn(lossy, { projections: [projection] })
    rebuilding.on('error', () => {})
    await rebuilding.rebuild(projection)
    expect([isLost, await read()]).toEqual([true, ['account-1: 6/3']])
  })
})

import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import {
  type LanePolicy,
  laneCount,
  type Pick,
  planPicks,
  type Room,
  spreadTurns,
  takeByPicks,
} from '../../core/lanes.js'
import type { Store } from '../../core/store.js'
import { countBy, fresh, idsOf, insertMany, lease, type Test } from './helpers.js'

const weighted: LanePolicy = { strict: false, turns: spreadTurns([8, 4, 2, 1]), reserved: [0, 0, 0, 0] }
const strict: LanePolicy = { ...weighted, strict: true }

export function lanes(test: Test): void {
  test('a full round is shared 8 : 4 : 2 : 1', async ({ store }) => {
    await fill(store, 'main', [20, 20, 20, 20])
    assert.deepEqual(byLane(await claimPlanned(store, weighted, 15)), [8, 4, 2, 1])
  })

  test('room that a lane cannot use goes to the most urgent lane that can', async ({ store }) => {
    await fill(store, 'main', [2, 0, 20, 20])
    assert.deepEqual(byLane(await claimPlanned(store, weighted, 15)), [2, 0, 12, 1])
  })

  test('strict gives all to the most urgent lane, then the next', async ({ store }) => {
    await fill(store, 'main', [3, 5, 20, 20])
    assert.deepEqual(byLane(await claimPlanned(store, strict, 10)), [3, 5, 2, 0])
    assert.deepEqual(byLane(await claimPlanned(store, strict, 30)), [0, 0, 18, 12])
  })

  for (const filled of [
    [20, 20, 20, 20],
    [3, 20, 20, 20],
    [0, 2, 20, 1],
    [20, 0, 0, 20],
  ]) {
    test(`claim(15) takes from each lane what 15 claims of one take: lanes of ${filled.join(', ')}`, async ({
      store,
    }) => {
      await fill(store, 'one', filled)
      await fill(store, 'many', filled)
      const one = await claimPlanned(store, weighted, 15, ['one'])
      const many: ClaimedJob[] = []
      for (let turn = 0; turn < 15; turn++)
        many.push(...(await claimPlanned(store, weighted, 1, ['many'], turn)))
      assert.deepEqual(byLane(one), byLane(many))
    })
  }

  test('no lane starves: each has its share of any 150 turns', async ({ store }) => {
    await fill(store, 'main', [150, 150, 150, 150])
    const taken: ClaimedJob[] = []
    for (let turn = 0; turn < 150; turn += 10)
      taken.push(...(await claimPlanned(store, weighted, 10, ['main'], turn)))
    assert.deepEqual(byLane(taken), [80, 40, 20, 10])
  })

  test('reserved room is used by its lane alone', async ({ store }) => {
    await fill(store, 'main', [1, 0, 20, 20])
    const room = { shared: 4, own: [3, 2, 0, 0] }
    assert.deepEqual(
      byLane(await claimRoom(store, room, planPicks(room, weighted, ['main'], { turn: 0, claim: 0 }))),
      [1, 0, 3, 1],
    )
    await fill(store, 'main', [10, 10, 0, 0])
    assert.deepEqual(
      byLane(await claimRoom(store, { shared: 0, own: [3, 2, 0, 0] }, allPicks(['main'], 9))),
      [3, 2, 0, 0],
    )
  })

  test('a lane may use shared room beyond its own', async ({ store }) => {
    await fill(store, 'main', [0, 0, 10, 0])
    assert.deepEqual(
      byLane(await claimRoom(store, { shared: 2, own: [5, 0, 1, 0] }, allPicks(['main'], 9))),
      [0, 0, 3, 0],
    )
  })

  test('queues of a claim share a lane by their picks', async ({ store }) => {
    for (const queue of ['a', 'b', 'c']) await fill(store, queue, [0, 0, 10, 0])
    const room = { shared: 7, own: [0, 0, 0, 0] }
    const picks: Pick[] = [
      { queue: 'b', lane: 2, take: 4 },
      { queue: 'a', lane: 2, take: 2 },
      { queue: 'c', lane: 2, take: 1 },
    ]
    const claimed = await claimRoom(store, room, picks)
    assert.deepEqual(countBy(claimed, 'queue'), { a: 2, b: 4, c: 1 })
  })

  test('lanes and queues that no pick names are left alone', async ({ store }) => {
    await fill(store, 'a', [5, 5, 5, 5])
    await fill(store, 'b', [5, 5, 5, 5])
    const picks = [{ queue: 'b', lane: 1, take: 1 }]
    const claimed = await claimRoom(store, { shared: 50, own: [9, 9, 9, 9] }, picks)
    assert.deepEqual([byLane(claimed), countBy(claimed, 'queue')], [[0, 5, 0, 0], { b: 5 }])
  })

  test('a pick with no share still gets what is left over', async ({ store }) => {
    await fill(store, 'main', [0, 0, 0, 5])
    const picks = [0, 1, 2, 3].map((lane) => ({ queue: 'main', lane, take: lane === 0 ? 4 : 0 }))
    assert.deepEqual(byLane(await claimRoom(store, { shared: 4, own: [0, 0, 0, 0] }, picks)), [0, 0, 0, 4])
  })

  test('each lane is first in, first out', async ({ store }) => {
    const lines = [await insertMany(store, 5, { lane: 0 }), await insertMany(store, 5, { lane: 3 })]
    lines[0]?.push(...(await insertMany(store, 5, { lane: 0 })))
    const claimed: ClaimedJob[] = []
    for (let turn = 0; turn < 15; turn += 3)
      claimed.push(...(await claimPlanned(store, weighted, 3, ['main'], turn)))
    assert.deepEqual(idsOf(claimed.filter((job) => job.lane === 0)), lines[0])
    assert.deepEqual(idsOf(claimed.filter((job) => job.lane === 3)), lines[1])
  })

  test('any claim takes what takeByPicks prescribes', async ({ store }) => {
    const left = new Map<string, number>()
    for (const [i, queue] of ['a', 'b'].entries()) {
      const filled = [6, 0, 9, 3].map((count) => count + i)
      await fill(store, queue, filled)
      for (const [lane, count] of filled.entries()) left.set(`${queue} ${lane}`, count)
    }
    for (let n = 1; n <= 8; n++) {
      const room = { shared: n % 4, own: [n % 2, 0, n % 3, 1] }
      const picks = allPicks(n % 2 === 0 ? ['a', 'b'] : ['b', 'a'], n % 3)
      const expected = new Map<string, number>()
      takeByPicks(room, picks, (queue, lane, count) => {
        const key = `${queue} ${lane}`
        const found = Math.min(count, left.get(key) ?? 0)
        left.set(key, (left.get(key) ?? 0) - found)
        if (found > 0) expected.set(key, (expected.get(key) ?? 0) + found)
        return found
      })
      const seen = new Map<string, number>()
      for (const { queue, lane } of await claimRoom(store, room, picks)) {
        seen.set(`${queue} ${lane}`, (seen.get(`${queue} ${lane}`) ?? 0) + 1)
      }
      assert.deepEqual(new Map([...seen].sort()), new Map([...expected].sort()), `claim ${n}`)
    }
  })
}

async function fill(store: Store, queue: string, counts: readonly number[]): Promise<void> {
  for (const [lane, count] of counts.entries()) await insertMany(store, count, { queue, lane })
}

function claimPlanned(store: Store, policy: LanePolicy, count: number, queues = ['main'], turn = 0) {
  const room = { shared: count, own: [0, 0, 0, 0] }
  return claimRoom(store, room, planPicks(room, policy, queues, { turn, claim: turn }))
}

async function claimRoom(store: Store, room: Room, picks: readonly Pick[]): Promise<readonly ClaimedJob[]> {
  const claim = { token: fresh('token'), lease, room, picks, turn: 0 }
  return (await store.exchange({ worker: 'worker', settlements: [], claim })).claimed
}

function allPicks(queues: readonly string[], take: number): Pick[] {
  const all = Array.from({ length: laneCount }, (_, lane) => lane)
  return all.flatMap((lane) => queues.map((queue) => ({ queue, lane, take })))
}

function byLane(claimed: readonly ClaimedJob[]): number[] {
  return Array.from({ length: laneCount }, (_, lane) => claimed.filter((job) => job.lane === lane).length)
}

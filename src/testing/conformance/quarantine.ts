/** Definitions whose runs kill workers are suspects until some of their jobs have run without harm. */
import assert from 'node:assert/strict'
import { released } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import { claim, claimRequest, die, insertMany, settle, type Test } from './helpers.js'
import { choose, completeAll, gateOf, jobGate, queueGate, rescueAll } from './traffic-helpers.js'

const crashLimit = 3
const quietRuns = 10

export function quarantineTests(test: Test): void {
  test('after three lost workers its jobs are suspects, those of others are not', async (harness) => {
    const { store } = harness
    await prepare(store)
    await crash(harness, crashLimit - 1)
    assert.equal(await isSuspect(store), false)
    await crash(harness, 1)
    assert.equal(await isSuspect(store), true)
    assert.ok((await gateOf(store, jobGate()))?.quarantinedAt !== undefined)
    await insertMany(store, 1, { name: 'neighbour' })
    const claimed = await claim(store, 50)
    for (const { name, suspect } of claimed) assert.equal(suspect, name === 'greet', name)
  })

  test('one lost worker counts once, however many of its jobs it held', async (harness) => {
    const { store, advance } = harness
    await prepare(store)
    assert.equal((await claim(store, 9, { worker: 'lost' })).length, 9)
    await advance(10_000)
    const { orphans } = await store.sweep({ limit: 100, keep: { completed: 100, dead: 100 } })
    const outcome = { ...die(), to: 'pending' as const, crashed: true, retain: 0 }
    const settlements = orphans.map(({ id, token }) => ({ id, token, outcome, inserts: undefined }))
    const { settled } = await store.exchange({ worker: 'lost', settlements, claim: undefined, rescue: true })
    assert.deepEqual(new Set(settled), new Set(['applied']))
    assert.equal(await isSuspect(store), false)
  })

  test('workers that are lost together, as by a restart of their machine, count once', async (harness) => {
    const { store, advance } = harness
    await prepare(store)
    for (const worker of ['a', 'b', 'c', 'd']) assert.equal((await claim(store, 2, { worker })).length, 2)
    await advance(10_000)
    for (const worker of ['a', 'b', 'c', 'd']) {
      const { orphans } = await store.sweep({ limit: 100, keep: { completed: 100, dead: 100 } })
      const outcome = { ...die(), to: 'pending' as const, crashed: true, retain: 0 }
      const settlements = orphans
        .filter((orphan) => orphan.worker === worker)
        .map(({ id, token }) => ({ id, token, outcome, inserts: undefined }))
      await store.exchange({ worker, settlements, claim: undefined, rescue: true })
      await advance(1_000)
    }
    assert.equal(await isSuspect(store), false)
  })

  test('a clock that is set back hides no crashes', async (harness) => {
    const { store, jump } = harness
    if (jump === undefined) return
    await prepare(store)
    await crash(harness, 1)
    jump(-1_800_000)
    await crash(harness, crashLimit - 1)
    assert.equal(await isSuspect(store), true)
  })

  test('the end of a hold that nobody told forgets no crashes', async (harness) => {
    const { store } = harness
    await prepare(store)
    await crash(harness, crashLimit - 1)
    await store.configure({ gate: jobGate(), release: true })
    await crash(harness, 1)
    assert.equal(await isSuspect(store), true)
  })

  test('crashes of long ago are forgotten', async (harness) => {
    const { store, advance } = harness
    await prepare(store)
    await crash(harness, crashLimit - 1)
    await advance(3600_000)
    await crash(harness, crashLimit - 1)
    assert.equal(await isSuspect(store), false)
  })

  test('runs that end without harm clear it, and a crash starts the count again', async (harness) => {
    const { store } = harness
    await prepare(store)
    await crash(harness, crashLimit)
    await completeAll(store, await claim(store, quietRuns - 1))
    await crash(harness, 1)
    await completeAll(store, await claim(store, quietRuns - 1))
    assert.equal(await isSuspect(store), true)
    const [job] = await claim(store, 1)
    await settle(store, job as NonNullable<typeof job>, die())
    assert.equal(await isSuspect(store), false, 'a failure is no harm')
    assert.equal((await gateOf(store, jobGate()))?.quarantinedAt, undefined)
    await crash(harness, 1)
    assert.equal(await isSuspect(store), false, 'the old crashes are gone')
  })

  test('a claim repeated with its token says suspect again', async (harness) => {
    const { store } = harness
    await prepare(store)
    await crash(harness, crashLimit)
    const request = { worker: 'worker', settlements: [], claim: claimRequest(3) }
    const { claimed } = await store.exchange(request)
    assert.deepEqual(
      claimed.map(({ suspect }) => suspect),
      [true, true, true],
    )
    assert.deepEqual((await store.exchange(request)).claimed, claimed)
  })

  test('is told when it begins and when it ends', async (harness) => {
    const { store } = harness
    const told: [string, boolean][] = []
    const unsubscribe = store.subscribe((signal) => {
      if (signal.type === 'quarantine') told.push([signal.job, signal.on])
    })
    await prepare(store)
    await crash(harness, crashLimit + 1)
    await completeAll(store, await claim(store, quietRuns))
    unsubscribe()
    assert.deepEqual(told, [
      ['greet', true],
      ['greet', false],
    ])
  })

  test('limits count suspects right, before and after', async (harness) => {
    const { store } = harness
    await prepare(store)
    await choose(store, queueGate(), { limit: { concurrency: 2 } })
    await crash(harness, crashLimit)
    await choose(store, jobGate(), { limit: { concurrency: 1 } })
    const first = await claim(store, 9)
    assert.equal(first.length, 1)
    assert.deepEqual(await claim(store, 9), [])
    await settle(store, first[0] as NonNullable<(typeof first)[0]>, released())
    assert.equal((await claim(store, 9)).length, 1)
  })
}

async function prepare(store: Store): Promise<void> {
  await insertMany(store, 60, { maxCrashes: 50 })
}

/** So many workers are lost, one after the other, with one job each. */
async function crash(harness: StoreHarness, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    assert.equal((await claim(harness.store, 1, { worker: 'lost' })).length, 1)
    assert.equal(await rescueAll(harness), 1)
  }
}

async function isSuspect(store: Store): Promise<boolean> {
  const [job] = await claim(store, 1)
  assert.ok(job)
  await settle(store, job, released())
  return job.suspect
}

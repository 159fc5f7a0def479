/** Jobs that are kept until their flow is over, because what it may have to undo is found by them. */
import assert from 'node:assert/strict'
import type { NewFamily } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import { cancelCommand, childOf, endNext, linksOf, parent, retryCommand } from './family-jobs.js'
import { claim, complete, die, exists, settle, statesOf, stop, sweep, type Test } from './helpers.js'

const gone = { completed: 0, dead: 0 }
const hour = 3_600_000

export function familyStaysTests(test: Test): void {
  test('a job that stays is there until its flow has completed, however it ends', async ({
    store,
    advance,
  }) => {
    const last = parent()
    const parts = [staying(last, 'a'), staying(last, 'b'), staying(last, 'c'), childOf([last], { id: 'd' })]
    await store.insert([last, ...parts])
    const outcomes = [complete('1', gone), die(undefined, gone), stop('enough', gone), complete('1', gone)]
    for (const [i, job] of (await claim(store, 4)).entries())
      await settle(store, job, outcomes[i] as (typeof outcomes)[0])
    assert.deepEqual(await kept(store, parts), ['a', 'b', 'c'])
    for (let i = 0; i < 3; i++) {
      await advance(hour)
      assert.equal((await sweep(store)).pruned, 0)
    }
    assert.deepEqual(await kept(store, parts), ['a', 'b', 'c'])
    await endNext(store)
    await advance(hour)
    assert.equal((await sweep(store)).pruned, 4)
    assert.deepEqual(await kept(store, [last, ...parts]), [])
    assert.deepEqual(await endsOf(store), { completed: 0, dead: 0, cancelled: 0 })
  })

  test('one that completes with others stays, with its links', async ({ store }) => {
    const last = parent()
    const middle = staying(last, 'm', 'sealed')
    await store.insert([last, middle, childOf([middle], { id: 'a' }), childOf([last], { id: 'b' })])
    for (const job of await claim(store, 2)) await settle(store, job, complete('1', gone))
    const jobs = await claim(store, 2)
    const settlements = jobs.map(({ id, token }) => ({
      id,
      token,
      outcome: complete('1', gone),
      inserts: undefined,
    }))
    await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.deepEqual(
      (await linksOf(store, { parents: ['m'] })).map(({ child, end }) => [child, end]),
      [['a', 'completed']],
    )
  })

  test('it stays while its flow is dead, which may be replayed, and goes with it', async ({
    store,
    advance,
  }) => {
    const last = parent()
    const part = staying(last, 'a')
    await store.insert([last, part])
    await endNext(store, complete('1', gone))
    await endNext(store, die(undefined, { completed: 0, dead: 5 * hour }))
    await advance(2 * hour)
    await sweep(store)
    assert.deepEqual(await kept(store, [part]), ['a'])
    await advance(4 * hour)
    await sweep(store)
    await advance(hour)
    await sweep(store)
    assert.deepEqual(await kept(store, [last, part]), [])
  })

  test('it stays where too many are kept, and others go', async ({ store }) => {
    const last = parent()
    const parts = [staying(last, 'a'), staying(last, 'b'), childOf([last], { id: 'c' })]
    await store.insert([last, ...parts])
    for (const job of await claim(store, 3)) await settle(store, job, complete())
    for (let i = 0; i < 3; i++) await sweep(store, { keep: { completed: 0, dead: 0 } })
    assert.deepEqual(await kept(store, parts), ['a', 'b'])
  })

  test('too many are kept: what stays is not kept for longer by that, and goes when its flow is over', async ({
    store,
    advance,
  }) => {
    const { last, parts } = await threeThatStay(store)
    const crowded = { keep: { completed: 1, dead: 1 } }
    for (let i = 0; i < 5; i++) await sweep(store, crowded)
    await endNext(store, complete('1', { completed: 9 * hour, dead: 0 }))
    await sweep(store, crowded)
    assert.deepEqual(await kept(store, [last, ...parts]), [last.id])
    await advance(hour)
    assert.equal((await sweep(store)).pruned, 0)
  })

  test('its retention ends an hour after a sweep that found it needed, however many sweeps there were', async ({
    store,
    advance,
  }) => {
    await threeThatStay(store)
    for (let i = 0; i < 5; i++) await sweep(store, { keep: { completed: 1, dead: 1 } })
    await endNext(store, complete('1', gone))
    await advance(hour)
    assert.equal((await sweep(store)).pruned, 3)
  })

  test('a few less that stay than a sweep looks at do not slow down the removal of others', async ({
    store,
  }) => {
    const last = parent()
    const parts = ['a', 'b', 'c', 'd'].map((id) => staying(last, id))
    const others = Array.from({ length: 15 }, (_, i) => childOf([last], { id: `o${i}` }))
    await store.insert([last, ...parts, ...others])
    for (const job of await claim(store, 19))
      await settle(store, job, complete('1', { completed: 2 * hour, dead: 0 }))
    for (let i = 0; i < 4; i++) await sweep(store, { limit: 5, keep: { completed: 4, dead: 0 } })
    assert.deepEqual(await kept(store, [...parts, ...others]), ['a', 'b', 'c', 'd'])
  })

  test('more that stay than a sweep looks at do not hide others that are too many', async ({ store }) => {
    const last = parent()
    const parts = ['a', 'b', 'c', 'd', 'e'].map((id) => staying(last, id))
    const other = childOf([last], { id: 'o' })
    await store.insert([last, ...parts, other])
    for (const job of await claim(store, 6))
      await settle(store, job, complete('1', { completed: 2 * hour, dead: 0 }))
    for (let i = 0; i < 3; i++) await sweep(store, { limit: 2, keep: { completed: 0, dead: 0 } })
    assert.deepEqual(await kept(store, [...parts, other]), ['a', 'b', 'c', 'd', 'e'])
  })

  test('one that is cancelled while it waits stays too', async ({ store, advance }) => {
    const last = parent()
    await store.insert([last, staying(last, 'a'), childOf([last], { id: 'b' })])
    await store.operate({ ids: ['a', 'b'] }, { ...cancelCommand, retain: 0 })
    assert.deepEqual([await exists(store, 'a'), await exists(store, 'b')], [true, false])
    await advance(2 * hour)
    await sweep(store)
    assert.equal(await exists(store, 'a'), true)
  })

  test('an operator removes it when its flow has ended, not before', async ({ store }) => {
    const last = parent()
    await store.insert([last, staying(last, 'a'), staying(last, 'b')])
    await endNext(store)
    const remove = () => store.operate({ ids: ['a'] }, { do: 'remove' })
    assert.deepEqual((await remove()).refused, ['a'])
    await endNext(store, die())
    await endNext(store, die())
    assert.deepEqual((await remove()).affected, ['a'])
    await store.operate({ ids: ['b'] }, retryCommand)
    assert.deepEqual((await store.operate({ ids: ['b'] }, { do: 'remove' })).affected, ['b'], 'it waits')
  })
}

/** They have completed; the job that their flow leads to is ready. */
async function threeThatStay(store: Store): Promise<{ last: NewJob; parts: NewJob[] }> {
  const last = parent()
  const parts = ['a', 'b', 'c'].map((id) => staying(last, id))
  await store.insert([last, ...parts])
  for (const job of await claim(store, 3)) await settle(store, job, complete('1', gone))
  return { last, parts }
}

function staying(last: NewJob, id: string, waits: NewFamily['waits'] = 'no'): NewJob {
  const job = childOf([last], { id }, { waits })
  return { ...job, family: { ...(job.family as NewFamily), stays: true } }
}

async function kept(store: Store, jobs: readonly NewJob[]): Promise<string[]> {
  const ids = jobs.map(({ id }) => id)
  const records = await store.get(ids)
  return ids.filter((_, i) => records[i] !== undefined)
}

async function endsOf(store: Store) {
  const { completed, dead, cancelled } = await statesOf(store)
  return { completed, dead, cancelled }
}

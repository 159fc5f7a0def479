/** Jobs that wait for others: counts and links. What ends mean is for the worker to decide. */
import assert from 'node:assert/strict'
import { bounds } from '../../core/bounds.js'
import type { FailurePolicy } from '../../core/family.js'
import {
  childOf,
  countsOf,
  died,
  endNext,
  linksOf,
  ofChild,
  parent,
  reason,
  root,
  statuses,
} from './family-jobs.js'
import { claim, claimOne, complete, die, settle, stateOf, stop, type Test } from './helpers.js'

export function familyTests(test: Test): void {
  test('a parent is ready when its last child has ended', async ({ store }) => {
    const top = parent()
    const children = [childOf([top]), childOf([top])]
    const results = await store.insert([top, ...children])
    assert.deepEqual(
      results.map(({ status, state }) => [status, state]),
      [
        ['inserted', 'blocked'],
        ['inserted', 'pending'],
        ['inserted', 'pending'],
      ],
    )
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 2, failed: 0 })
    await endNext(store, complete('1'))
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store, complete('2'))
    assert.equal(await stateOf(store, top.id), 'pending')
    const job = await claimOne(store)
    assert.deepEqual(job.family, {
      flow: top.id,
      node: undefined,
      parents: [],
      children: 2,
      waiting: 0,
      failed: 0,
      open: false,
      replays: 0,
      compensated: false,
    })
  })

  test('links of as many parents as there may be are found at once', async ({ store }) => {
    const parents = Array.from({ length: bounds.page }, () => parent())
    const children = parents.slice(0, 500).map((top) => childOf([top]))
    await store.insert([...parents, ...children])
    const ids = parents.map(({ id }) => id)
    const { links } = await store.links({ parents: ids, limit: bounds.page })
    assert.deepEqual(
      links.map(({ child }) => child),
      children.map(({ id }) => id),
    )
  })

  test('children that complete together count each', async ({ store }) => {
    const top = parent()
    const other = parent()
    const children = Array.from({ length: 20 }, (_, i) => childOf(i % 2 === 0 ? [top] : [top, other]))
    await store.insert([top, other, ...children])
    const jobs = await claim(store, 20)
    const settlements = jobs.map(({ id, token }) => ({
      id,
      token,
      outcome: complete(`"${id}"`),
      inserts: undefined,
    }))
    await store.exchange({ worker: 'worker', settlements: settlements.slice(0, 19), claim: undefined })
    assert.equal((await countsOf(store, top.id))?.waiting, 1)
    await store.exchange({ worker: 'worker', settlements: settlements.slice(19), claim: undefined })
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.equal(await stateOf(store, other.id), 'pending')
    const links = await linksOf(store, { parents: [top.id] }, 7)
    assert.deepEqual(
      links.map(({ child, result }) => [child, result]),
      [...children].sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ id }) => [id, `"${id}"`]),
    )
  })

  test('a link keeps what became of a child that is not kept', async ({ store, advance }) => {
    const top = parent()
    const children = [childOf([top], { id: 'a' }), childOf([top], { id: 'b' }), childOf([top], { id: 'c' })]
    await store.insert([top, ...children])
    const jobs = await claim(store, 3)
    const gone = { completed: 0, dead: 0 }
    const outcomes = [complete('"ok"', gone), die({ ...ofChild, root }, gone), stop(reason, gone)]
    await advance(5)
    for (const [i, job] of jobs.entries()) await settle(store, job, outcomes[i] as (typeof outcomes)[0])
    const [a, b, c] = await linksOf(store, { parents: [top.id] })
    assert.deepEqual([a?.end, a?.result, a?.failure], ['completed', '"ok"', undefined])
    assert.deepEqual([b?.end, b?.result, b?.failure?.message], ['dead', undefined, died.message])
    assert.deepEqual(b?.failure?.root, root)
    assert.deepEqual([c?.end, c?.result], ['cancelled', undefined])
    assert.deepEqual(await store.get(['a', 'b', 'c']), [undefined, undefined, undefined])
    assert.deepEqual(await countsOf(store, top.id), { children: 3, waiting: 0, failed: 2 })
  })

  test('only children that stand in the way are counted as failed', async ({ store }) => {
    const top = parent()
    const policies: FailurePolicy[] = ['fail', 'continue', 'ignore', 'compensate']
    await store.insert([top, ...policies.map((onFailure) => childOf([top], {}, { onFailure }))])
    for (const _ of policies) await endNext(store, die())
    assert.deepEqual(await countsOf(store, top.id), { children: 4, waiting: 0, failed: 2 })
    const failed = await linksOf(store, { parents: [top.id], failed: true })
    assert.equal(failed.length, 4)
  })

  test('a job without a parent that waits is an orphan', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top])])
    assert.deepEqual(statuses(await store.insert([childOf(['nobody']), childOf([top, 'nobody'])])), [
      'orphaned',
      'orphaned',
    ])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
    await endNext(store)
    // It is about to run and would not notice.
    assert.deepEqual(statuses(await store.insert([childOf([top])])), ['orphaned'])
    await endNext(store)
    assert.deepEqual(statuses(await store.insert([childOf([top])])), ['orphaned'])
  })

  test('a child is added once, whether it is still there or not', async ({ store }) => {
    const top = parent({}, { waits: 'open' })
    const child = childOf([top])
    await store.insert([top, child])
    assert.deepEqual(statuses(await store.insert([child])), ['duplicate'])
    await endNext(store, complete('1', { completed: 0, dead: 0 }))
    assert.deepEqual(statuses(await store.insert([child])), ['duplicate'])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
    assert.deepEqual(await store.get([child.id]), [undefined])
  })

  test('links go with their parent', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top])])
    await endNext(store)
    await store.operate({ ids: [top.id] }, { do: 'remove' })
    assert.deepEqual(await linksOf(store, { parents: [top.id] }), [])
    await store.insert([parent({ id: top.id }), childOf([top])])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
  })

  test('links of several parents are read page by page, of one definition', async ({ store }) => {
    const [a, b] = [parent({ id: 'a' }), parent({ id: 'b' })]
    const names = ['x', 'y', 'x', 'y', 'x']
    const children = names.map((name, i) => childOf([a, b], { id: `c${i}`, name }))
    await store.insert([a, b, ...children])
    for (const limit of [1, 2, 3, 100]) {
      const found = await linksOf(store, { parents: ['b', 'nobody', 'a'], name: 'x' }, limit)
      assert.deepEqual(
        found.map(({ parent: of, child }) => `${of}${child}`),
        ['bc0', 'bc2', 'bc4', 'ac0', 'ac2', 'ac4'],
      )
    }
  })

  test('those whose ids begin alike are read page by page', async ({ store }) => {
    const [a, b] = [parent({ id: 'a' }), parent({ id: 'b' })]
    const ids = ['k.1', 'k.10', 'k.2', 'k', 'l.1', 'j.9', 'ka', 'k.', 'k/1']
    await store.insert([a, b, ...ids.map((id) => childOf([a, b], { id }))])
    for (const limit of [1, 2, 3, 100]) {
      const found = await linksOf(store, { parents: ['b', 'a'], prefix: 'k.' }, limit)
      assert.deepEqual(
        found.map(({ parent: of, child }) => `${of} ${child}`),
        ['b k.1', 'b k.10', 'b k.2', 'a k.1', 'a k.10', 'a k.2'],
      )
    }
  })
}

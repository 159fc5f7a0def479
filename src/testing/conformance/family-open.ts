/** Parents that get children while they wait or run, and that are woken before the last of them has ended. */
import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import { cancelCommand, childOf, countsOf, endNext, linksOf, parent, statuses } from './family-jobs.js'
import {
  claim,
  claimOne,
  complete,
  die,
  insertOne,
  lease,
  newJob,
  read,
  rescue,
  settle,
  stateOf,
  stop,
  sweep,
  type Test,
} from './helpers.js'

export function familyOpenTests(test: Test): void {
  test('an open parent waits until it is sealed', async ({ store }) => {
    const top = parent({}, { waits: 'open' })
    await store.insert([top, childOf([top])])
    await endNext(store)
    assert.equal((await read(store, top.id)).family?.open, true)
    assert.equal(await stateOf(store, top.id), 'blocked')
    await store.insert([childOf([top])])
    const seal = () => store.operate({ ids: [top.id] }, { do: 'seal' })
    assert.deepEqual((await seal()).affected, [top.id])
    assert.deepEqual((await seal()).refused, [top.id])
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'pending')
    const empty = parent({}, { waits: 'open' })
    await store.insert([empty])
    await store.operate({ ids: [empty.id] }, { do: 'seal' })
    assert.equal(await stateOf(store, empty.id), 'pending')
  })

  test('children that differ in nothing but their inputs come later, each once', async ({ store }) => {
    const [top, gone] = [parent({}, { waits: 'open' }), parent({}, { waits: 'open' })]
    await store.insert([top, gone])
    const twins = (of: NewJob, count: number) => {
      const first = childOf([of])
      return Array.from({ length: count }, (_, n) => ({ ...first, id: `${first.id}.${n}`, input: `${n}` }))
    }
    const [some, more] = [twins(top, 5), twins(top, 3)]
    assert.deepEqual(statuses(await store.insert(some)), [
      'inserted',
      'inserted',
      'inserted',
      'inserted',
      'inserted',
    ])
    assert.deepEqual(await countsOf(store, top.id), { children: 5, waiting: 6, failed: 0 })
    assert.equal((await read(store, `${some[3]?.id}`)).input, '3')
    const links = await linksOf(store, { parents: [top.id] })
    assert.deepEqual(
      links.map(({ parent: of, child, end, onFailure }) => [of, child, end, onFailure]),
      some.map(({ id }) => [top.id, id, undefined, 'fail']),
    )

    // One of them is over, and forgotten.
    assert.equal(await endNext(store, complete(undefined, { completed: 0, dead: 0 })), some[0]?.id)
    assert.deepEqual(
      statuses(await store.insert(some)),
      some.map(() => 'duplicate'),
    )
    const both = [some[1] as NewJob, ...more]
    assert.deepEqual(statuses(await store.insert(both)), ['duplicate', 'inserted', 'inserted', 'inserted'])
    assert.deepEqual(await countsOf(store, top.id), { children: 8, waiting: 8, failed: 0 })

    await store.operate({ ids: [gone.id] }, cancelCommand)
    const late = twins(gone, 2)
    assert.deepEqual(statuses(await store.insert(late)), ['orphaned', 'orphaned'])
    assert.deepEqual(statuses(await store.insert(twins(newJob(), 2))), ['orphaned', 'orphaned'])
    assert.deepEqual(await store.get(late.map(({ id }) => id)), [undefined, undefined])

    await store.operate({ ids: [top.id] }, { do: 'seal' })
    for (let left = 7; left > 0; left--) {
      assert.equal(await stateOf(store, top.id), 'blocked')
      await endNext(store)
    }
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(statuses(await store.insert(twins(top, 1))), ['orphaned'])
  })

  test('an open parent wakes when its patience is over, not before, and not once it is sealed', async ({
    store,
    advance,
  }) => {
    const [top, sealed] = [parent({}, { waits: 'open' }), parent({}, { waits: 'open' })]
    await store.insert([top, childOf([top]), sealed, childOf([sealed])])
    await store.operate({ ids: [sealed.id] }, { do: 'seal' })
    await advance(59_999)
    const report = await sweep(store)
    assert.deepEqual([report.promoted, report.nextDue], [0, 1])
    await advance(1)
    assert.equal((await sweep(store)).promoted, 1)
    assert.equal(await stateOf(store, sealed.id), 'blocked')
    const jobs = await claim(store, 10)
    assert.equal(jobs.find(({ id }) => id === top.id)?.family?.open, true)
  })

  test('the first death wakes a parent that wants to know, and only the first', async ({ store }) => {
    const top = parent()
    const wakes = { onFailure: 'continue', wakes: true } as const
    await store.insert([top, ...[1, 2, 3, 4].map(() => childOf([top], {}, wakes))])
    await endNext(store, stop())
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store, die())
    assert.equal(await stateOf(store, top.id), 'pending')
    const jobs = await claim(store, 10)
    const own = jobs.find(({ id }) => id === top.id)
    assert.ok(own)
    assert.equal(
      await settle(store, own, waiting({ until: undefined, signals: [], children: true, fans: [] })),
      'applied',
    )
    const [second, third] = jobs.filter(({ id }) => id !== top.id)
    await settle(store, second as typeof own, die())
    assert.equal(await stateOf(store, top.id), 'blocked')
    await settle(store, third as typeof own, complete())
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('a run adds children to its own job, fenced by its lease', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const child = childOf([id])
    const held = { id, token: job.token, progress: undefined, logs: undefined, inserts: [child] }
    const extend = (token: string) => store.extend({ worker: 'worker', lease, held: [{ ...held, token }] })
    assert.deepEqual((await extend('wrong')).lost, [id])
    assert.deepEqual(await store.get([child.id]), [undefined])
    assert.deepEqual((await extend(job.token)).lost, [])
    assert.deepEqual((await extend(job.token)).lost, [])
    assert.deepEqual(await countsOf(store, id), { children: 1, waiting: 1, failed: 0 })
    await settle(store, job, waiting({ until: undefined, signals: [], children: true, fans: [] }))
    assert.equal(await stateOf(store, id), 'blocked')
    assert.equal(await endNext(store), child.id)
    assert.equal(await stateOf(store, id), 'pending')
  })

  test('a job that waits for children that have ended meanwhile goes on at once', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const child = childOf([id])
    await store.extend({
      worker: 'worker',
      lease,
      held: [{ id, token: job.token, progress: undefined, logs: undefined, inserts: [child] }],
    })
    await endNext(store)
    await settle(store, job, waiting({ until: undefined, signals: [], children: true, fans: [] }))
    assert.equal(await stateOf(store, id), 'pending')
  })

  test('a lost worker that dies of it counts for the parent', async ({ store, advance }) => {
    const top = parent()
    await store.insert([top, childOf([top], { maxCrashes: 1 })])
    await claimOne(store)
    await advance(lease + 1)
    const { orphans } = await sweep(store)
    assert.equal(await rescue(store, orphans[0] as (typeof orphans)[0]), 'applied')
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 0, failed: 1 })
  })
}

/** Families that come again: a flow is added once more, a job begins afresh. */
import assert from 'node:assert/strict'
import type { NewFamily } from '../../core/family.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { childOf, linksOf, parent } from './family-jobs.js'
import {
  claim,
  complete,
  die,
  exists,
  fresh,
  lease,
  newJob,
  read,
  retention,
  running,
  settle,
  stateOf,
  type Test,
} from './helpers.js'

const remove = { do: 'remove' } as const
const afresh = { do: 'retry', delay: 0, spacing: 0, change: { fresh: true } } as const

export function familyLivesTests(test: Test): void {
  test('a flow is not added while parts of an earlier one of its id are there', async ({ store }) => {
    const root = parent()
    const middle = childOf([root], {}, { waits: 'sealed' })
    const [done, open] = [childOf([root]), childOf([middle], { queue: 'other' })]
    const below = { ...open, family: { ...open.family, flow: root.id } } as NewJob
    const flow = [root, middle, done, below]
    await store.insert(flow)
    await settle(store, await claimed(store, done.id), complete())
    await store.operate({ ids: [root.id] }, remove)
    const again = await store.insert(flow)
    assert.deepEqual(again, Array(4).fill({ status: 'orphaned', state: undefined }))
    assert.equal(await exists(store, root.id), false)
    await store.operate({ ids: flow.map(({ id }) => id) }, remove)
    const anew = await store.insert(flow)
    assert.ok(anew.every(({ status }) => status === 'inserted'))
  })

  test('nor are more parts of one that is open, where jobs have their ids that are no parts of it', async ({
    store,
  }) => {
    const [root, other] = [parent({}, { waits: 'open' }), newJob()]
    const own = childOf([root])
    await store.insert([root, own, other])
    const [again, stranger] = await store.insert([own, childOf([root], { id: other.id })])
    assert.deepEqual(again, { status: 'duplicate', state: 'pending' })
    assert.deepEqual(stranger, { status: 'orphaned', state: 'pending' })
    assert.equal((await read(store, root.id)).family?.children, 1)
  })

  test('where its parent is gone, a plain child is of its own flow, one with a place of its own as before', async ({
    store,
  }) => {
    const root = parent()
    const plain = childOf([root])
    const waits = childOf([root], {}, { waits: 'sealed' })
    const child = childOf([waits])
    const below = { ...child, family: { ...(child.family as NewFamily), flow: root.id } }
    await store.insert([root, plain, waits, below])
    const flows = async () =>
      (await store.get([plain.id, waits.id, below.id])).map((job) => [
        job?.family?.flow,
        job?.family?.parents,
      ])
    assert.deepEqual(await flows(), [
      [root.id, [root.id]],
      [root.id, [root.id]],
      [root.id, [waits.id]],
    ])
    await store.operate({ ids: [root.id] }, remove)
    assert.deepEqual(await flows(), [
      [plain.id, []],
      [root.id, []],
      [root.id, [waits.id]],
    ])
  })

  test('what undoes jobs may be there', async ({ store }) => {
    const first = newJob()
    await store.insert([first])
    const next = parent()
    const child = childOf([next], { id: first.id })
    const loose = { ...child, family: { ...child.family, loose: true } } as NewJob
    const [, result] = await store.insert([next, loose])
    assert.equal(result?.status, 'duplicate')
    assert.equal(await stateOf(store, next.id), 'pending')
  })

  test('a child that was forgotten is not added again to a parent that has ended', async ({ store }) => {
    const root = parent()
    const child = childOf([root])
    const loose = { ...child, family: { ...child.family, loose: true } } as NewJob
    await store.insert([root, loose])
    await settle(store, await claimed(store, child.id), complete(undefined, { ...retention, completed: 0 }))
    await settle(store, await claimed(store, root.id), complete())
    const [again] = await store.insert([loose])
    assert.equal(again?.status, 'duplicate')
    assert.equal(await exists(store, child.id), false)
  })

  test('a child that was forgotten is not added again to a parent that waits for others', async ({
    store,
  }) => {
    const root = parent()
    const [child, other] = [childOf([root]), childOf([root])]
    await store.insert([root, child, other])
    const jobs = await claim(store, 2)
    await settle(
      store,
      jobs.find(({ id }) => id === child.id) as ClaimedJob,
      complete(undefined, { ...retention, completed: 0 }),
    )
    for (let time = 0; time < 2; time++) {
      const [again] = await store.insert([child])
      assert.equal(again?.status, 'duplicate')
    }
    assert.equal((await read(store, root.id)).family?.waiting, 1)
    assert.equal(await exists(store, child.id), false)
  })

  for (const [name, outcome] of [
    ['completed', complete()],
    ['dead', die()],
  ] as const) {
    test(`a ${name} job that begins afresh has none of the children that its runs added`, async ({
      store,
    }) => {
      const job = await running(store)
      const [open, ended] = await added(store, job, 2)
      await settle(store, await claimed(store, ended), complete())
      await settle(store, job, outcome)
      await store.operate({ ids: [job.id] }, afresh)
      assert.equal(await stateOf(store, job.id), 'pending')
      assert.deepEqual(await linksOf(store, { parents: [job.id] }), [])
      const { children, waiting } = (await read(store, job.id)).family ?? {}
      assert.deepEqual([children, waiting], [0, 0])
      assert.ok(await exists(store, open ?? ''), 'goes on by itself')
    })
  }

  test('the children that its flow gave it stay', async ({ store }) => {
    const root = parent()
    const given = childOf([root])
    await store.insert([root, given])
    await settle(store, await claimed(store, given.id), die())
    const job = await claimed(store, root.id)
    const [own] = await added(store, job, 1)
    await settle(store, job, die())
    await store.operate({ ids: [root.id] }, afresh)
    assert.deepEqual(
      (await linksOf(store, { parents: [root.id] })).map(({ child }) => child),
      [given.id],
    )
    assert.equal((await read(store, root.id)).family?.failed, 1)
    assert.ok(await exists(store, own ?? ''))
  })

  test('without that it keeps them, and its run waits for them', async ({ store }) => {
    const job = await running(store)
    const [child] = await added(store, job, 1)
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, { ...afresh, change: {} })
    assert.equal(await stateOf(store, job.id), 'pending')
    await settle(store, await claimed(store, job.id), waitForFan)
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, child), complete())
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('a job that takes the place of one that waits for children waits for none', async ({ store }) => {
    const dedupe = { key: 'k', mode: 'replace', window: 0, most: 0 } as const
    const job = await running(store, { dedupe })
    const [child] = await added(store, job, 1)
    await settle(store, job, waitForFan)
    assert.equal(await stateOf(store, job.id), 'blocked')
    const [result] = await store.insert([newJob({ dedupe })])
    assert.equal(result?.status, 'replaced')
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(await linksOf(store, { parents: [job.id] }), [])
    await settle(store, await claimed(store, child), complete())
    assert.equal((await read(store, job.id)).family?.waiting ?? 0, 0)
  })
}

const waitForFan = waiting({ until: undefined, signals: [], children: false, fans: ['fan'] })

/** Children that a step of the job adds. */
async function added(store: Store, job: ClaimedJob, count: number): Promise<string[]> {
  const inserts = Array.from({ length: count }, () =>
    childOf([job.id], { id: fresh('own'), queue: 'other' }, { onFailure: 'continue', fan: 'fan' }),
  )
  const { lost } = await store.extend({
    worker: 'worker',
    lease,
    held: [{ id: job.id, token: job.token, progress: undefined, logs: undefined, inserts }],
  })
  assert.deepEqual(lost, [])
  return inserts.map(({ id }) => id)
}

async function claimed(store: Store, id = ''): Promise<ClaimedJob> {
  const { queue } = await read(store, id)
  const job = (await claim(store, 10, { queues: [queue] })).find((one) => one.id === id)
  assert.ok(job, `${id} is ready`)
  return job
}

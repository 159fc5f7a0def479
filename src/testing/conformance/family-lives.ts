/** Families that come again: a flow is added once more when its last job is gone, a job begins afresh. */
import assert from 'node:assert/strict'
import type { NewFamily } from '../../core/family.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { childOf, linksOf, parent } from './family-jobs.js'
import {
  claim,
  claimOne,
  complete,
  die,
  exists,
  fresh,
  lease,
  newJob,
  read,
  running,
  settle,
  stateOf,
  type Test,
} from './helpers.js'

const remove = { do: 'remove' } as const
const afresh = { do: 'retry', delay: 0, spacing: 0, change: { fresh: true } } as const

export function familyLivesTests(test: Test): void {
  test('a flow whose last job is gone is added again with the parts that are still there', async ({
    store,
  }) => {
    const root = parent()
    const [done, failed, open] = [
      childOf([root]),
      childOf([root], {}, { onFailure: 'continue' }),
      childOf([root]),
    ]
    const flow = [root, done, failed, open]
    await store.insert(flow)
    const [first, second] = await claim(store, 2)
    await settle(store, first as ClaimedJob, complete('"one"'))
    await settle(store, second as ClaimedJob, die())
    await store.operate({ ids: [root.id] }, remove)

    const again = await store.insert(flow)
    assert.deepEqual(
      again.map(({ status }) => status),
      ['inserted', 'duplicate', 'duplicate', 'duplicate'],
    )
    assert.equal(await stateOf(store, root.id), 'blocked')
    assert.deepEqual((await read(store, root.id)).family, {
      flow: root.id,
      node: undefined,
      parents: [],
      children: 3,
      waiting: 1,
      failed: 0,
      open: false,
    })
    assert.deepEqual((await read(store, open.id)).family?.parents, [root.id])
    const last = await claimOne(store)
    assert.equal(last.id, open.id)
    await settle(store, last, complete('"three"'))
    assert.equal((await claimOne(store)).id, root.id, 'nothing is left to wait for')
    const links = await linksOf(store, { parents: [root.id] })
    const seen = links.map(({ child, end, result }) => [child, end, result])
    const wanted = [
      [done.id, 'completed', '"one"'],
      [failed.id, 'dead', undefined],
      [open.id, 'completed', '"three"'],
    ]
    assert.deepEqual(
      seen,
      wanted.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1)),
    )
  })

  test('when all of its parts have ended, it is ready at once, and those that failed stand in its way', async ({
    store,
  }) => {
    const root = parent()
    const [done, failed] = [childOf([root]), childOf([root])]
    await store.insert([root, done, failed])
    for (const outcome of [complete(), die()]) await settle(store, await claimOne(store), outcome)
    await store.operate({ ids: [root.id] }, remove)
    await store.insert([root, done, failed])
    assert.equal(await stateOf(store, root.id), 'pending')
    assert.equal((await read(store, root.id)).family?.failed, 1)
    await store.operate({ ids: [failed.id] }, afresh)
    assert.equal(await stateOf(store, root.id), 'blocked', 'waits for a part that is replayed')
  })

  test('an open job that is built again gets its parts back, one that runs among them', async ({ store }) => {
    const root = parent({}, { waits: 'open' })
    const child = childOf([root])
    await store.insert([root, child])
    const runs = await claimOne(store)
    await store.operate({ ids: [root.id] }, remove)
    await store.insert([root])
    await store.insert([child])
    assert.deepEqual((await store.operate({ ids: [root.id] }, { do: 'seal' })).affected, [root.id])
    assert.equal(await stateOf(store, root.id), 'blocked')
    await settle(store, runs, complete())
    assert.equal(await stateOf(store, root.id), 'pending')
  })

  test('who has been told of all children gets no other one because it has the same id', async ({
    store,
  }) => {
    const [root, other] = [parent(), newJob()]
    await store.insert([root, childOf([root]), other])
    const [{ status } = { status: undefined }] = await store.insert([childOf([root], { id: other.id })])
    assert.equal(status, 'duplicate')
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

  test('what undoes jobs waits for nothing that was there before', async ({ store }) => {
    const first = newJob()
    await store.insert([first])
    const next = parent()
    const child = childOf([next], { id: first.id })
    const loose = { ...child, family: { ...child.family, loose: true } } as NewJob
    await store.insert([next, loose])
    assert.equal(await stateOf(store, next.id), 'pending')
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

  test('without that it keeps them', async ({ store }) => {
    const job = await running(store)
    const [child] = await added(store, job, 1)
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, { ...afresh, change: {} })
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, child), complete())
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('a job that takes the place of one that waits for children waits for none', async ({ store }) => {
    const dedupe = { key: 'k', mode: 'replace', window: 0, most: 0 } as const
    const job = await running(store, { dedupe })
    const [child] = await added(store, job, 1)
    await settle(store, job, waiting({ until: undefined, signals: [], children: true }))
    assert.equal(await stateOf(store, job.id), 'blocked')
    const [result] = await store.insert([newJob({ dedupe })])
    assert.equal(result?.status, 'replaced')
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(await linksOf(store, { parents: [job.id] }), [])
    await settle(store, await claimed(store, child), complete())
    assert.equal((await read(store, job.id)).family?.waiting ?? 0, 0)
  })
}

/** Children that the job's run adds. */
async function added(store: Store, job: ClaimedJob, count: number): Promise<string[]> {
  const inserts = Array.from({ length: count }, () =>
    childOf([job.id], { id: fresh('own'), queue: 'other' }, { onFailure: 'continue' }),
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

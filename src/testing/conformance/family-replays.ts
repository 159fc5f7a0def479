/** Parents and children that are replayed. */
import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import { cancelCommand, childOf, countsOf, endNext, ofChild, parent, retryCommand } from './family-jobs.js'
import { claimOne, claimRequest, die, settle, stateOf, type Test } from './helpers.js'

export function familyReplayTests(test: Test): void {
  test('a child that is replayed is waited for again', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top]), childOf([top])])
    const id = await endNext(store, die())
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 1, failed: 1 })
    await store.operate({ ids: [id] }, retryCommand)
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 2, failed: 0 })
    await endNext(store)
    await endNext(store)
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 0, failed: 0 })
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('whoever died only of it, directly or not, waits for it again', async ({ store }) => {
    const top = parent()
    const middle = childOf([top], {}, { waits: 'sealed' })
    const low = childOf([middle])
    await store.insert([top, middle, low])
    assert.equal(await endNext(store, die()), low.id)
    assert.equal(await endNext(store, die(ofChild)), middle.id)
    assert.equal(await endNext(store, die(ofChild)), top.id)
    assert.equal((await store.causes()).length, 1)
    await store.operate({ ids: [low.id] }, retryCommand)
    assert.deepEqual(
      (await store.get([top.id, middle.id, low.id])).map((job) => [job?.state, job?.attempt, job?.expiresAt]),
      [
        ['blocked', 0, undefined],
        ['blocked', 0, undefined],
        ['pending', 0, undefined],
      ],
    )
    assert.deepEqual(await store.causes(), [])
    for (const id of [low.id, middle.id, top.id]) assert.equal(await endNext(store), id)
  })

  test('who died of something else stays dead', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top], {}, { onFailure: 'continue' })])
    const child = await endNext(store, die())
    await endNext(store, die())
    await store.operate({ ids: [child] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'dead')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'dead')
  })

  test('a parent that is replayed keeps in mind what failed, and waits for what has not ended', async ({
    store,
  }) => {
    const top = parent()
    await store.insert([top, childOf([top]), childOf([top])])
    const first = await endNext(store, die())
    await endNext(store)
    const job = await claimOne(store)
    await settle(store, job, die(ofChild))
    await store.operate({ ids: [top.id] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 0, failed: 1 })
    await store.operate({ ids: [first] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'blocked')
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 1, failed: 0 })
    await endNext(store)
    assert.equal((await claimOne(store)).id, top.id)
  })

  test('one that is cancelled waits for its child when both are replayed', async ({ store }) => {
    const top = parent()
    const child = childOf([top])
    await store.insert([top, child])
    await store.operate({ ids: [top.id] }, cancelCommand)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'cancelled')
    await store.operate({ ids: [top.id] }, { ...retryCommand, delay: 1_000 })
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('a long line of those that died of each other is revived as a whole', async ({ store, isRemote }) => {
    const length = isRemote ? 1_100 : 4_000
    const jobs: NewJob[] = [parent()]
    for (let i = 0; i < length; i++)
      jobs.push(childOf([jobs.at(-1) as NewJob], {}, { waits: i < length - 1 ? 'sealed' : 'no' }))
    await store.insert(jobs)
    // Each with the claim of the next.
    let { id, token } = await claimOne(store)
    for (let i = 0; i <= length; i++) {
      const settlements = [{ id, token, outcome: i === 0 ? die() : die(ofChild), inserts: undefined }]
      const { settled, claimed } = await store.exchange({
        worker: 'worker',
        settlements,
        claim: claimRequest(),
      })
      assert.deepEqual([settled, claimed.length], [['applied'], i < length ? 1 : 0])
      if (claimed[0] !== undefined) ({ id, token } = claimed[0])
    }
    await store.operate({ ids: [jobs.at(-1)?.id ?? ''] }, retryCommand)
    const { kinds } = await store.counts()
    assert.deepEqual(
      kinds.map(({ states }) => [states.blocked, states.pending, states.dead]),
      [[length, 1, 0]],
    )
  }, 180_000)
}

/** That something was undone is kept with those that waited for it, longer than the job that undoes it. */
import assert from 'node:assert/strict'
import type { NewFamily } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import { childOf, endNext, linksOf, parent, retryCommand, statuses } from './family-jobs.js'
import { claimOne, complete, die, exists, newJob, settle, type Test } from './helpers.js'

const gone = { completed: 0, dead: 0 }

export function familyUndoTests(test: Test): void {
  test('what undoes a child is added once, also when it is gone', async ({ store }) => {
    const [first, second, child] = await sharedChild(store)
    assert.deepEqual(await undone(store, [first, second]), [false, false])
    const undo = await undoOf(store, child, [first, second])
    assert.deepEqual(statuses(await store.insert([undo])), ['inserted'])
    assert.deepEqual(await undone(store, [first, second]), [true, true])
    await endNext(store, complete(undefined, gone))
    assert.equal(await exists(store, undo.id), false)
    assert.deepEqual(await store.insert([undo]), [{ status: 'duplicate', state: undefined }])
    const byOther = await undoOf(store, child, [second])
    assert.deepEqual(statuses(await store.insert([byOther])), ['duplicate'])
    assert.equal(await exists(store, undo.id), false)
  })

  test('the same if it comes with the end of a run, of which nothing may be left', async ({ store }) => {
    const [first, second, child] = await sharedChild(store)
    await store.insert([newJob()])
    const job = await claimOne(store)
    const undo = await undoOf(store, child, [first, second])
    await settle(store, job, die(undefined, gone), { inserts: [undo] })
    assert.deepEqual(await undone(store, [first, second]), [true, true])
    await endNext(store, complete(undefined, gone))
    await store.insert([newJob()])
    await settle(store, await claimOne(store), die(), { inserts: [undo] })
    assert.equal(await exists(store, undo.id), false)
  })

  test('one that is there tells those who did not know of it', async ({ store }) => {
    const [first, second, child] = await sharedChild(store)
    await store.insert([await undoOf(store, child, [first])])
    assert.deepEqual(await undone(store, [first, second]), [true, false])
    const again = await undoOf(store, child, [second])
    assert.deepEqual(await store.insert([again]), [{ status: 'duplicate', state: 'pending' }])
    assert.deepEqual(await undone(store, [first, second]), [true, true])
  })

  test('a child that is replayed is to be undone anew', async ({ store, advance }) => {
    const [first, second, child] = await sharedChild(store)
    const before = await undoOf(store, child, [first, second])
    await store.insert([before])
    await endNext(store, complete(undefined, gone))
    await advance(1_000)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.deepEqual(await undone(store, [first, second]), [false, false])
    await endNext(store)
    assert.deepEqual(await undone(store, [first, second]), [false, false])
    const after = await undoOf(store, child, [first, second])
    assert.notEqual(after.id, before.id)
    assert.deepEqual(statuses(await store.insert([after])), ['inserted'])
    assert.deepEqual(await undone(store, [first, second]), [true, true])
  })

  test('what undoes its last time says nothing of the next one', async ({ store, advance }) => {
    const [first, second, child] = await sharedChild(store)
    const late = await undoOf(store, child, [first, second])
    await advance(1_000)
    await store.operate({ ids: [child.id] }, retryCommand)
    const again = await claimOne(store)
    await store.insert([late])
    assert.deepEqual(await undone(store, [first, second]), [false, false])
    await settle(store, again, complete())
    await store.insert([late])
    assert.deepEqual(await undone(store, [first, second]), [false, false])
  })

  test('a parent that completed is not told of a replay, and keeps what it knows', async ({
    store,
    advance,
  }) => {
    const [first, second, child] = await sharedChild(store, 'main')
    await store.insert([{ ...(await undoOf(store, child, [first, second])), queue: 'other' }])
    assert.equal(await endNext(store), first.id)
    await advance(1_000)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.deepEqual(await undone(store, [first, second]), [true, false])
    await endNext(store)
    const anew = { ...(await undoOf(store, child, [first, second])), queue: 'other' }
    assert.deepEqual(statuses(await store.insert([anew])), ['inserted'])
  })
}

/** A child that has completed for two parents. */
async function sharedChild(store: Store, queue = 'idle'): Promise<[NewJob, NewJob, NewJob]> {
  const [first, second] = [parent({ queue }), parent({ queue: 'idle' })]
  const child = childOf([first, second])
  await store.insert([first, second, child])
  assert.equal(await endNext(store), child.id)
  return [first, second, child]
}

/** What undoes the child, after the last time that one of these parents knows of. */
async function undoOf(store: Store, child: NewJob, parents: readonly NewJob[]): Promise<NewJob> {
  const ids = parents.map(({ id }) => id)
  const links = await linksOf(store, { parents: ids })
  const endedAt = Math.max(...links.map((link) => link.endedAt ?? 0))
  const undoes: NewFamily['undoes'] = { child: child.id, endedAt, parents: ids }
  return parent({ id: `${child.id}.undo.${endedAt}` }, { waits: 'no', loose: true, undoes })
}

async function undone(store: Store, parents: readonly NewJob[]): Promise<boolean[]> {
  return (await linksOf(store, { parents: parents.map(({ id }) => id) })).map((link) => link.undone)
}

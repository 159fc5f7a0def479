/** Children that are replayed while their parent runs, waits in its run, or is judged because of them. */
import assert from 'node:assert/strict'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { type Outcome, putOff, released, snoozed, unstarted, waiting } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  cancelCommand,
  childOf,
  countsOf,
  died,
  endNext,
  linksOf,
  ofChild,
  parent,
  retryCommand,
} from './family-jobs.js'
import {
  claimOne,
  complete,
  die,
  exists,
  lease,
  read,
  rescue,
  retryIn,
  settle,
  stateOf,
  sweep,
  type Test,
} from './helpers.js'

const nothing = { until: undefined, signals: [], children: false, fans: [] }

export function familyMeanwhileTests(test: Test): void {
  test('a parent that runs while its child is replayed does not die of it', async ({ store }) => {
    const { child, job } = await runningParent(store, die())
    await store.operate({ ids: [child.id] }, retryCommand)
    await settle(store, job, die(ofChild))
    assert.equal(await stateOf(store, job.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(await store.causes(), [])
  })

  for (const [name, outcome] of [
    ['is given back', unstarted()],
    ['is released', released()],
    ['fails and is retried', retryIn(5)],
    ['is put off', putOff(5)],
    ['is snoozed', snoozed(5)],
    ['sleeps', waiting({ ...nothing, until: 1 })],
    ['waits for a signal', waiting({ ...nothing, signals: [{ step: 's', key: 'k', after: 0 }] })],
  ] as const) {
    test(`a parent that ${name} waits for a child that was replayed while it ran`, async ({
      store,
      advance,
    }) => {
      const { child, job } = await runningParent(store, complete('1'))
      await store.operate({ ids: [child.id] }, retryCommand)
      assert.equal(await settle(store, job, outcome), 'applied')
      assert.equal(await stateOf(store, job.id), 'blocked')
      await advance(10)
      await sweep(store)
      assert.equal(await stateOf(store, job.id), 'blocked')
      assert.equal(await endNext(store, complete('2')), child.id)
      assert.equal((await claimOne(store)).id, job.id)
    })
  }

  test('so does one whose worker was lost', async ({ store, advance }) => {
    const { child, job } = await runningParent(store, complete('1'))
    await store.operate({ ids: [child.id] }, retryCommand)
    await advance(lease)
    const { orphans } = await sweep(store)
    for (const orphan of orphans) assert.equal(await rescue(store, orphan), 'applied')
    assert.equal(await stateOf(store, job.id), 'blocked')
    assert.equal(await endNext(store), child.id)
    assert.equal((await claimOne(store)).id, job.id)
  })

  for (const how of ['sleeps', 'waits for a signal'] as const) {
    test(`a parent that ${how} waits for a child that is replayed then`, async ({ store, advance }) => {
      const { child, job } = await runningParent(store, complete('1'))
      const until = job.startedAt + 5
      const signals = [{ step: 's', key: 'k', after: 0 }]
      await settle(store, job, waiting(how === 'sleeps' ? { ...nothing, until } : { ...nothing, signals }))
      await store.operate({ ids: [child.id] }, retryCommand)
      await advance(10)
      await sweep(store)
      await store.signal([{ key: 'k', id: 'i', payload: undefined, retain: 1_000 }])
      assert.equal(await stateOf(store, job.id), 'blocked')
      assert.equal(await endNext(store, complete('2')), child.id)
      const again = await claimOne(store)
      assert.equal(again.id, job.id)
      // What it waited for has come meanwhile.
      await settle(store, again, waiting(how === 'sleeps' ? { ...nothing, until } : { ...nothing, signals }))
      assert.equal(await stateOf(store, job.id), 'pending')
    })
  }

  test('one that has to undo what it did is not held up by a child', async ({ store }) => {
    const { child, job } = await runningParent(store, complete('1'), { unwinds: true })
    await settle(store, job, released())
    const again = await claimOne(store)
    await store.operate({ ids: [job.id] }, cancelCommand)
    await store.operate({ ids: [child.id] }, { ...retryCommand, change: { queue: 'idle' } })
    await settle(store, again, released())
    assert.equal((await claimOne(store)).id, job.id)
  })

  test('children are not undone because of one that is replayed at that time', async ({ store }) => {
    const { child, job, undo } = await compensating(store)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.equal(await settle(store, job, die(compensated(child)), { inserts: [undo] }), 'waiting')
    assert.equal(await exists(store, undo.id), false)
    assert.deepEqual(await countsOf(store, job.id), { children: 2, waiting: 1, failed: 0 })
    assert.equal(await endNext(store), child.id)
    assert.equal((await claimOne(store)).id, job.id)
  })

  test('nor if what would be undone was done again meanwhile: it is looked at once more', async ({
    store,
    advance,
  }) => {
    const { child, other, job, undo } = await compensating(store)
    await advance(1_000)
    await store.operate({ ids: [other.id] }, retryCommand)
    assert.equal(await endNext(store), other.id)
    assert.equal(await settle(store, job, die(compensated(child)), { inserts: [undo] }), 'waiting')
    assert.equal(await exists(store, undo.id), false)
    assert.equal((await claimOne(store)).id, job.id)
  })

  test('one whose children were undone never gets rid of that, whatever it dies of later', async ({
    store,
  }) => {
    const { child, job, undo } = await compensating(store)
    assert.equal((await read(store, job.id)).family?.compensated, false)
    assert.equal(await settle(store, job, die(compensated(child)), { inserts: [undo] }), 'applied')
    assert.equal(await exists(store, undo.id), true)
    await store.operate({ ids: [undo.id] }, { do: 'remove' })
    await store.operate({ ids: [job.id] }, retryCommand)
    assert.equal(await endNext(store, die()), job.id)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.equal(await endNext(store), child.id)
    await store.operate({ ids: [job.id] }, retryCommand)
    const { family } = await claimOne(store)
    assert.deepEqual([family?.failed, family?.compensated], [1, true])
  })
}

/** A parent that runs, after its child has ended. */
async function runningParent(
  store: Store,
  end: Outcome,
  fields: Partial<NewJob> = {},
): Promise<{ child: NewJob; job: ClaimedJob }> {
  const top = parent(fields)
  const child = childOf([top])
  await store.insert([top, child])
  assert.equal(await endNext(store, end), child.id)
  const job = await claimOne(store)
  assert.equal(job.id, top.id)
  return { child, job }
}

/** The same of one that is about to undo its other child. */
async function compensating(store: Store) {
  const top = parent()
  const child = childOf([top], {}, { onFailure: 'compensate' })
  const other = childOf([top], {}, { onFailure: 'compensate' })
  await store.insert([top, child, other])
  assert.equal(await endNext(store, die()), child.id)
  assert.equal(await endNext(store), other.id)
  const job = await claimOne(store)
  assert.equal(job.id, top.id)
  const links = await linksOf(store, { parents: [top.id] })
  const endedAt = links.find((link) => link.child === other.id)?.endedAt ?? 0
  const undoes = { child: other.id, endedAt, parents: [top.id] }
  const undo = parent({ id: `${other.id}.undo` }, { waits: 'no', loose: true, undoes })
  return { child, other, job, undo }
}

function compensated(child: NewJob) {
  return { ...died, code: 'COMPENSATED', child: child.id }
}

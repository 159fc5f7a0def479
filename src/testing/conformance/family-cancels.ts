/** Cancels that go down to the children, and children that go away. */
import assert from 'node:assert/strict'
import { cancelCommand, childOf, countsOf, endNext, linksOf, parent, reason } from './family-jobs.js'
import { claimOne, die, insertOne, lease, read, settle, stateOf, stop, sweep, type Test } from './helpers.js'

export function familyCancelTests(test: Test): void {
  test('a cancelled job takes along what only it waited for', async ({ store }) => {
    const [top, other] = [parent(), parent()]
    const middle = childOf([top], {}, { waits: 'sealed' })
    const [own, shared] = [childOf([middle]), childOf([middle, other])]
    await store.insert([top, other, middle, own, shared])
    assert.deepEqual((await store.operate({ ids: [top.id] }, cancelCommand)).affected, [top.id])
    assert.deepEqual(
      (await store.get([top.id, middle.id, own.id, shared.id, other.id])).map((job) => job?.state),
      ['cancelled', 'cancelled', 'cancelled', 'pending', 'blocked'],
    )
    assert.equal((await read(store, own.id)).cancelReason, reason)
    await endNext(store)
    assert.equal(await stateOf(store, other.id), 'pending')
  })

  test('a running child is asked to stop', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top])])
    const job = await claimOne(store)
    await store.operate({ ids: [top.id] }, cancelCommand)
    assert.equal((await read(store, job.id)).cancelReason, reason)
    assert.equal(await settle(store, job, die()), 'applied')
    assert.equal(await stateOf(store, top.id), 'cancelled')
  })

  test('a job that is cancelled while it runs takes its children along', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const children = [childOf([id]), childOf([id])]
    await store.extend({
      worker: 'worker',
      lease,
      held: [{ id, token: job.token, progress: undefined, logs: undefined, inserts: children }],
    })
    await settle(store, job, stop(reason, { completed: 0, dead: 0 }))
    await sweep(store)
    for (const child of children) assert.equal(await stateOf(store, child.id), 'cancelled')
  })

  test('many children are cancelled a bounded number at a time', async ({ store }) => {
    const top = parent()
    await store.insert([top, ...Array.from({ length: 1_500 }, () => childOf([top]))])
    await store.operate({ ids: [top.id] }, { ...cancelCommand, retain: 0 })
    const states = async () => {
      const { kinds } = await store.counts()
      return kinds.reduce((sum, { states }) => sum + states.cancelled, 0)
    }
    const first = await states()
    assert.ok(first > 100 && first < 1_501, `${first} are cancelled at once`)
    const keep = { completed: 10_000, dead: 10_000 }
    let more = true
    for (let i = 0; more && i < 100; i++) {
      const before = await states()
      more = (await sweep(store, { limit: 100, keep })).more
      assert.ok((await states()) - before <= 100)
    }
    assert.equal(await states(), 1_501)
  })

  test('a child that is cancelled or removed is not waited for any longer', async ({ store }) => {
    const top = parent()
    const [a, b] = [childOf([top]), childOf([top])]
    await store.insert([top, a, b])
    await store.operate({ ids: [a.id] }, cancelCommand)
    assert.equal((await countsOf(store, top.id))?.waiting, 1)
    await store.operate({ ids: [b.id] }, { do: 'remove' })
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(
      (await linksOf(store, { parents: [top.id] })).map(({ end }) => end),
      ['cancelled', 'cancelled'],
    )
  })
}

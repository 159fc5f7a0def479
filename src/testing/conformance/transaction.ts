import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import type { Settlement, Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import {
  claim,
  claimOne,
  complete,
  die,
  exists,
  insertMany,
  insertOne,
  newJob,
  nextSignal,
  read,
  rescue,
  retryIn,
  settle,
  stateOf,
  statesOf,
  sweep,
  type Test,
  totalOf,
} from './helpers.js'

/** For engines that have them; others must refuse. What a caller writes is a job here: every engine has those. */
export function transactionTests(test: Test): void {
  test('an engine without transactions says so', async ({ store }) => {
    if (store.capabilities.transactions) return
    await assert.rejects(store.begin(), { code: 'STORE_REFUSED' })
  })

  const withTransactions = (title: string, body: (harness: StoreHarness) => Promise<void>) =>
    test(title, async (harness) => {
      if (harness.store.capabilities.transactions) await body(harness)
    })

  withTransactions('settles and commits what was written with it', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const transaction = await store.begin()
    const written = newJob({ queue: 'written' })
    await store.insert([written], transaction.tx)
    const added = newJob({ queue: 'added' })
    const report = { progress: '50', logs: [{ at: 1, level: 'info', text: 'half' } as const] }
    const settlement = { ...ended(job, complete('1')), inserts: [added], report }
    assert.equal(await transaction.settle('worker', settlement), 'applied')
    const record = await read(store, id)
    assert.deepEqual([record.state, record.result, record.progress], ['completed', '1', '50'])
    assert.equal((await store.trail(id))?.logs.length, 1)
    assert.deepEqual(
      [await stateOf(store, written.id), await stateOf(store, added.id)],
      ['pending', 'pending'],
    )
    const { running, completed } = await statesOf(store)
    assert.deepEqual([running, completed, await totalOf(store, 'completed')], [0, 1, 1])
    assert.equal(await totalOf(store, 'enqueued', 'written'), 1)
  })

  withTransactions(
    'a rollback leaves the job under its lease and nothing of what was written',
    async ({ store }) => {
      const id = await insertOne(store)
      const job = await claimOne(store)
      const transaction = await store.begin()
      const written = newJob({ queue: 'written' })
      await store.insert([written], transaction.tx)
      await transaction.rollback()
      assert.equal(await exists(store, written.id), false)
      assert.equal(await stateOf(store, id), 'running')
      await assert.rejects(transaction.settle('worker', ended(job, complete())), { code: 'STORE_REFUSED' })
      await transaction.rollback()
      assert.equal(await settle(store, job, complete()), 'applied')
    },
  )

  withTransactions('a lost lease rolls everything back', async ({ store, advance }) => {
    await insertOne(store)
    const zombie = await claimOne(store, 'one')
    await advance(60_000)
    const [orphan] = (await sweep(store)).orphans
    assert.ok(orphan)
    await rescue(store, orphan)
    const held = await claimOne(store, 'two')
    for (const [worker, token] of [
      ['one', zombie.token],
      ['two', zombie.token],
      ['one', held.token],
      ['nobody', held.token],
      ['two', 'no token'],
    ] as const) {
      const transaction = await store.begin()
      const written = newJob({ queue: 'written' })
      await store.insert([written], transaction.tx)
      assert.equal(await transaction.settle(worker, ended({ id: zombie.id, token }, complete())), 'lost')
      assert.equal(await exists(store, written.id), false)
    }
    assert.equal(await settle(store, held, complete(), { worker: 'two' }), 'applied')
  })

  withTransactions('a settlement repeated is lost', async ({ store }) => {
    await insertOne(store)
    const job = await claimOne(store)
    assert.equal(await (await store.begin()).settle('worker', ended(job, complete())), 'applied')
    assert.equal(await (await store.begin()).settle('worker', ended(job, complete())), 'lost')
    assert.equal(await settle(store, job, die()), 'lost')
    assert.equal(await totalOf(store, 'completed'), 1)
  })

  withTransactions('any outcome can come with it', async ({ store, advance }) => {
    const id = await insertOne(store)
    const first = await store.begin()
    await first.rollback()
    const job = await claimOne(store)
    assert.equal(await (await store.begin()).settle('worker', ended(job, retryIn(10))), 'applied')
    assert.equal(await stateOf(store, id), 'retrying')
    await advance(10)
    await sweep(store)
    const again = await claimOne(store)
    assert.equal(again.attempt, 2)
    assert.equal(await (await store.begin()).settle('worker', ended(again, die())), 'applied')
    assert.equal((await store.causes()).length, 1)
  })

  withTransactions('several at once all commit, one after the other or side by side', async ({ store }) => {
    const ids = await insertMany(store, 3)
    const written = ids.map(() => newJob({ queue: 'written' }))
    const settled = (await claim(store, 3)).map(async (job, i) => {
      const transaction = await store.begin()
      await store.insert(written.slice(i, i + 1), transaction.tx)
      await new Promise((resolve) => setImmediate(resolve))
      return transaction.settle('worker', ended(job, complete()))
    })
    assert.deepEqual(await Promise.all(settled), ['applied', 'applied', 'applied'])
    assert.equal((await statesOf(store)).completed, 3)
    assert.equal((await statesOf(store, 'written')).pending, 3)
  })

  withTransactions('other writes wait for it and lose nothing', async ({ store, second }) => {
    const handles = [store, ...(second === undefined ? [] : [await second()])]
    await insertOne(store)
    const job = await claimOne(store)
    const transaction = await store.begin()
    const waiting = handles.map((handle) => insertMany(handle, 2, { queue: 'waiting' }))
    await store.insert([newJob({ queue: 'written' })], transaction.tx)
    assert.equal(await transaction.settle('worker', ended(job, complete())), 'applied')
    await Promise.all(waiting)
    assert.equal((await statesOf(store, 'waiting')).pending, 2 * handles.length)
    assert.equal((await statesOf(store, 'written')).pending, 1)
  })

  withTransactions('limits, groups and breakers hear of it', async ({ store }) => {
    const gate = { of: 'job', name: 'greet' } as const
    const change = { limit: { concurrency: 1 }, each: { concurrency: 1 } }
    await store.configure({ gate, change, declared: true })
    const traffic = { gated: true, group: 'g', key: 'k' }
    const ids = await insertMany(store, 4, { traffic })
    for (const id of ids.slice(0, 3)) {
      const [job, ...others] = await claim(store, 4)
      assert.deepEqual([job?.id, others.length], [id, 0])
      const transaction = await store.begin()
      await store.insert([newJob({ traffic })], transaction.tx)
      assert.equal(await transaction.settle('worker', ended(job as ClaimedJob, complete())), 'applied')
    }
    const { gates } = await store.gates({ of: 'key', owner: 'greet', limit: 10 })
    assert.deepEqual(
      gates.map(({ pending, running }) => [pending, running]),
      [[4, 0]],
    )
    assert.equal((await claim(store, 4)).length, 1)
  })

  withTransactions('guards are kept with it', async ({ store }) => {
    await insertMany(store, 2, { guard: { key: 'k', retain: 1_000 } })
    const [job] = await claim(store, 1)
    assert.ok(job)
    await (await store.begin()).rollback()
    assert.equal(await (await store.begin()).settle('worker', ended(job, complete('1'))), 'applied')
    assert.deepEqual((await claimOne(store)).guard?.result, '1')
  })

  withTransactions('signals of this process come when it commits', async ({ store }) => {
    await insertOne(store)
    const job = await claimOne(store)
    const heard: string[] = []
    const stopListening = store.subscribe(({ type }) => heard.push(type))
    const transaction = await store.begin()
    await store.insert([newJob({ queue: 'written' })], transaction.tx)
    const settled = nextSignal(store, ({ type }) => type === 'settled')
    assert.deepEqual(heard, [])
    await transaction.settle('worker', ended(job, complete()))
    await settled
    stopListening()
    assert.deepEqual(heard.slice(0, 2), ['ready', 'settled'])
  })

  withTransactions('a report commits too, under the lease', async ({ store }) => {
    await insertOne(store)
    const job = await claimOne(store)
    const { id, token } = job
    const transaction = await store.begin()
    const [written, added] = [newJob({ queue: 'written' }), newJob({ queue: 'added' })]
    await store.insert([written], transaction.tx)
    const held = { id, token, progress: '1', logs: undefined, inserts: [added] }
    assert.equal(await transaction.report('worker', held), 'applied')
    assert.equal((await read(store, id)).progress, '1')
    assert.deepEqual([await exists(store, written.id), await exists(store, added.id)], [true, true])
    const late = await store.begin()
    const other = newJob({ queue: 'written' })
    await store.insert([other], late.tx)
    assert.equal(await late.report('another', { ...held, progress: '2' }), 'lost')
    assert.equal((await read(store, id)).progress, '1')
    assert.equal(await exists(store, other.id), false)
    assert.equal(await settle(store, job, complete()), 'applied')
  })

  withTransactions(
    'what its caller did not take back after a refused insert is still committed',
    async ({ store }) => {
      const gate = { of: 'queue', name: 'small' } as const
      const depth = {
        max: 1,
        low: 0,
        lanes: [null, null, null, null],
        overflow: 'reject',
        defer: 0,
        shedAt: [1, 1, 1, 1],
      } as const
      await store.configure({ gate, change: { depth }, declared: true })
      await insertOne(store)
      const job = await claimOne(store)
      const transaction = await store.begin()
      const [first, second] = [newJob({ queue: 'small' }), newJob({ queue: 'small' })]
      await store.insert([first], transaction.tx)
      await assert.rejects(async () => store.insert([second], transaction.tx), { code: 'QUEUE_FULL' })
      assert.equal(await transaction.settle('worker', ended(job, complete())), 'applied')
      assert.deepEqual([await exists(store, first.id), await exists(store, second.id)], [true, false])
      assert.equal((await statesOf(store, 'small')).pending, 1)
    },
  )

  withTransactions('a transaction of a closed store cannot commit', async ({ store, second }) => {
    if (second === undefined) return
    await insertOne(store)
    const job = await claimOne(store)
    const other: Store = await second()
    const transaction = await other.begin()
    await other.close()
    await assert.rejects(transaction.settle('worker', ended(job, complete())), { code: 'CLOSED' })
    assert.equal(await settle(store, job, complete()), 'applied')
  })
}

function ended({ id, token }: Pick<Settlement, 'id' | 'token'>, outcome: Settlement['outcome']): Settlement {
  return { id, token, outcome, inserts: undefined }
}

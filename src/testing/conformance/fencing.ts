/** Whoever lost the lease cannot write: not a result, not progress, not a log line, whatever it presents. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { crashed, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { held, line } from './extend.js'
import {
  claim,
  claimOne,
  complete,
  die,
  exists,
  insertMany,
  insertOne,
  lease,
  lostWorker,
  newJob,
  read,
  rescue,
  retention,
  retryIn,
  running,
  settle,
  stop,
  sweep,
  type Test,
  wait,
} from './helpers.js'

const gone = { completed: 0, dead: 0 }
const orphan = { crashes: 0, maxCrashes: 1, cancelReason: undefined }

const outcomes: readonly [string, Outcome][] = [
  ['completed', complete('"stale"')],
  ['completed, keeping nothing', complete('"stale"', gone)],
  ['retried', retryIn(5)],
  ['dead', die()],
  ['dead, keeping nothing', die(undefined, gone)],
  ['cancelled', stop()],
  ['released', released()],
  ['snoozed', snoozed(5)],
  ['blocked', wait()],
  ['crashed', crashed({ ...orphan, maxCrashes: 9 }, lostWorker('greet'), retention)],
  ['crashed to death', crashed(orphan, lostWorker('greet'), retention)],
]

export function fencing(test: Test): void {
  for (const [name, outcome] of outcomes) {
    test(`${name}: refused for a zombie whose job another worker has`, async ({ store, advance }) => {
      const { zombie, heir } = await takenOver(store, advance)
      await expectRefused(store, zombie, outcome, 'zombie')
      assert.equal(await settle(store, heir, complete('"heir"'), { worker: 'heir' }), 'applied')
      await expectRefused(store, zombie, outcome, 'zombie')
      assert.equal((await read(store, heir.id)).result, '"heir"')
    })

    test(`${name}: refused for a wrong worker and a wrong token`, async ({ store }) => {
      const [job, other] = [await running(store), await running(store)]
      await expectRefused(store, job, outcome, 'other')
      await expectRefused(store, job, outcome, 'nobody')
      for (const token of [`${job.token}x`, `x${job.token}`, 'stale', '']) {
        await expectRefused(store, { ...job, token }, outcome, 'worker')
      }
      assert.equal(await settle(store, other, complete()), 'applied', 'others are unharmed')
      assert.equal(await settle(store, job, outcome), 'applied', 'the right one still works')
    })

    test(`${name}: applied once`, async ({ store }) => {
      const job = await running(store)
      assert.equal(await settle(store, job, outcome), 'applied')
      const [before] = await store.get([job.id])
      for (const again of [outcome, complete('"again"'), released()]) {
        assert.equal(await settle(store, job, again), 'lost')
      }
      assert.deepEqual((await store.get([job.id]))[0], before)
    })
  }

  for (const result of [undefined, '"stale"']) {
    const how = result === undefined ? 'without' : 'with'
    const all = (jobs: readonly ClaimedJob[]) =>
      jobs.map(({ id, token }) => ({ id, token, outcome: complete(result), inserts: undefined }))

    test(`completions of a whole claim, ${how} results: refused for a wrong worker`, async ({ store }) => {
      const ids = await insertMany(store, 5)
      const claimed = await claim(store, 5)
      await claim(store, 1, { worker: 'other' })
      const before = await store.get(ids)
      const { settled } = await store.exchange({
        worker: 'other',
        settlements: all(claimed),
        claim: undefined,
      })
      assert.deepEqual(
        settled,
        ids.map(() => 'lost'),
      )
      assert.deepEqual(await store.get(ids), before)
    })

    test(`completions of a whole claim, ${how} results: refused for the tokens of an earlier one`, async ({
      store,
    }) => {
      const ids = await insertMany(store, 5)
      const earlier = await claim(store, 5)
      for (const job of earlier) await settle(store, job, released())
      const claimed = await claim(store, 5)
      const before = await store.get(ids)
      const { settled } = await store.exchange({
        worker: 'worker',
        settlements: all(earlier),
        claim: undefined,
      })
      assert.deepEqual(
        settled,
        ids.map(() => 'lost'),
      )
      assert.deepEqual(await store.get(ids), before)
      const right = await store.exchange({ worker: 'worker', settlements: all(claimed), claim: undefined })
      assert.deepEqual(
        right.settled,
        ids.map(() => 'applied'),
      )
    })
  }

  test('a token that differs in any letter is refused, by settle and by extend', async ({ store }) => {
    const job = await running(store)
    for (const token of alterations(job.token)) {
      const wrong = [held({ id: job.id, token }, { progress: '1', logs: [line(1)] })]
      assert.deepEqual(
        (await store.extend({ worker: 'worker', lease, held: wrong })).lost,
        [job.id],
        `token ${token}`,
      )
      await expectRefused(store, { id: job.id, token }, complete(), 'worker')
    }
    assert.equal((await read(store, job.id)).progress, undefined)
    assert.equal(await settle(store, job, complete()), 'applied')
  })

  test('a token opens the job that it was given for, and no other', async ({ store }) => {
    const [job, other] = [await running(store), await running(store)]
    await expectRefused(store, { id: job.id, token: other.token }, complete('"wrong"'), 'worker')
    assert.equal((await read(store, other.id)).state, 'running', 'nor by way of another id')
    const wrong = [held({ id: job.id, token: other.token }, { progress: '1', logs: [line(1)] })]
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: wrong })).lost, [job.id])
    assert.equal(await settle(store, other, complete()), 'applied')
    assert.equal(await settle(store, job, complete()), 'applied')
  })

  test('the same settlement twice in one call is applied once', async ({ store }) => {
    await insertMany(store, 2)
    const [a, b] = (await claim(store, 2)) as [ClaimedJob, ClaimedJob]
    const settlement = (job: ClaimedJob, outcome: Outcome) => ({
      id: job.id,
      token: job.token,
      outcome,
      inserts: undefined,
    })
    const settlements = [
      settlement(a, complete('1')),
      settlement(a, die()),
      settlement(b, released()),
      settlement(b, released()),
    ]
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.deepEqual(settled, ['applied', 'lost', 'applied', 'lost'])
    assert.deepEqual([(await read(store, a.id)).state, (await read(store, b.id)).attempt], ['completed', 0])
  })

  test('a settlement for a job that is gone is lost, also when its id is in use again', async ({ store }) => {
    const ended = await running(store)
    await settle(store, ended, complete('1'))
    await store.operate({ ids: [ended.id] }, { do: 'remove' })
    assert.equal(await settle(store, ended, complete('2')), 'lost')
    assert.equal(await exists(store, ended.id), false)

    await store.insert([newJob({ id: ended.id, queue: 'again' })])
    assert.equal(await settle(store, ended, die()), 'lost')
    const [again] = await claim(store, 1, { queues: ['again'] })
    assert.equal(again?.id, ended.id)
    assert.notEqual(again?.token, ended.token)
    assert.equal(await settle(store, ended, die()), 'lost')
    assert.equal(await settle(store, again as ClaimedJob, complete('3')), 'applied')
  })

  test('a settlement for a job that never was is lost', async ({ store }) => {
    const job = await running(store)
    assert.equal(await settle(store, { id: 'nobody', token: 'nothing' }, complete()), 'lost')
    assert.equal(await settle(store, { id: 'nobody', token: job.token }, complete()), 'lost')
    assert.equal(await settle(store, job, complete()), 'applied')
  })

  test('a job that was released and claimed again by the same worker has a new token', async ({ store }) => {
    await insertOne(store)
    const first = await claimOne(store)
    await settle(store, first, released())
    const second = await claimOne(store)
    assert.notEqual(second.token, first.token)
    await expectRefused(store, first, complete(), 'worker')
    assert.equal(await settle(store, second, complete()), 'applied')
  })

  test('a zombie writes no progress and no logs, and is told so', async ({ store, advance }) => {
    const { zombie, heir } = await takenOver(store, advance)
    await store.extend({ worker: 'heir', lease, held: [held(heir, { progress: '"heir"', logs: [line(1)] })] })
    await store.operate({ ids: [heir.id] }, { do: 'cancel', reason: 'for the heir', retain: 0 })
    const late = [held(zombie, { progress: '"zombie"', logs: [line(2)] })]
    assert.deepEqual(await store.extend({ worker: 'zombie', lease, held: late }), {
      lost: [zombie.id],
      cancels: [],
      open: [],
      strays: [],
    })
    assert.equal((await read(store, heir.id)).progress, '"heir"')
    assert.deepEqual((await store.trail(heir.id))?.logs, [line(1)])
    assert.equal((await read(store, heir.id)).worker, 'heir')
  })

  test('an extension with a wrong token or by a wrong worker writes nothing', async ({ store }) => {
    const job = await running(store)
    for (const token of [`${job.token}x`, 'stale', '']) {
      const wrong = [held({ id: job.id, token }, { progress: '1', logs: [line(1)] })]
      assert.deepEqual(
        (await store.extend({ worker: 'worker', lease, held: wrong })).lost,
        [job.id],
        `token ${token}`,
      )
    }
    const right = [held(job, { progress: '1', logs: [line(1)] })]
    assert.deepEqual((await store.extend({ worker: 'other', lease, held: right })).lost, [job.id])
    assert.equal((await read(store, job.id)).progress, undefined)
    assert.deepEqual((await store.trail(job.id))?.logs, [])
    assert.equal((await read(store, job.id)).worker, 'worker')
  })

  test('an extension of a settled or removed job is lost', async ({ store }) => {
    const job = await running(store)
    await settle(store, job, complete())
    const late = [held(job, { progress: '1', logs: [line(1)] })]
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: late })).lost, [job.id])
    assert.equal((await read(store, job.id)).progress, undefined)
    await store.operate({ ids: [job.id] }, { do: 'remove' })
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: late })).lost, [job.id])
  })

  test('a rescue is refused while the lease is valid, whatever it presents', async ({ store, advance }) => {
    const job = await running(store)
    await advance(lease - 1)
    for (const [name, outcome] of outcomes) {
      assert.equal(await settle(store, job, outcome, { rescue: true }), 'lost', name)
    }
    assert.equal((await read(store, job.id)).state, 'running')
    await advance(1)
    const wrong = { id: job.id, token: `${job.token}x` }
    assert.equal(await settle(store, wrong, released(), { rescue: true }), 'lost')
    assert.equal(await settle(store, job, released(), { rescue: true, worker: 'other' }), 'lost')
    assert.equal(await settle(store, job, released(), { rescue: true }), 'applied')
  })

  test('a rescue of what another worker claimed meanwhile is refused', async ({ store, advance }) => {
    await insertOne(store)
    await claimOne(store, 'lost')
    await advance(lease)
    const [named] = (await sweep(store)).orphans
    assert.ok(named)
    assert.equal(await rescue(store, named), 'applied')
    const heir = await claimOne(store, 'heir')
    assert.equal(await rescue(store, named), 'lost')
    assert.equal((await read(store, heir.id)).crashes, 1)
    assert.equal(await settle(store, heir, complete(), { worker: 'heir' }), 'applied')
  })

  test('a lost settlement adds to no count', async ({ store }) => {
    const job = await running(store)
    const before = await store.counts()
    for (const [, outcome] of outcomes) await settle(store, { ...job, token: 'stale' }, outcome)
    assert.deepEqual(await store.counts(), before)
    assert.deepEqual(await store.causes(), [])
    assert.deepEqual(await store.trail(job.id), { attempts: [], logs: [], steps: [] })
  })
}

async function expectRefused(
  store: Store,
  job: { id: string; token: string },
  outcome: Outcome,
  worker: string,
): Promise<void> {
  const child = newJob()
  const before = await store.get([job.id])
  const report = { progress: '"stale"', logs: [line(9)] }
  const result = await settle(store, job, outcome, { worker, inserts: [child], report })
  assert.equal(result, 'lost', `token ${job.token} of ${worker}`)
  assert.deepEqual(await store.get([job.id]), before)
  assert.deepEqual((await store.trail(job.id))?.logs, [])
  assert.equal(await exists(store, child.id), false)
}

/** A job whose first worker fell silent, was rescued, and is run by another one now. */
async function takenOver(
  store: Store,
  advance: (ms: number) => Promise<void> | void,
): Promise<{ zombie: ClaimedJob; heir: ClaimedJob }> {
  await insertOne(store)
  const zombie = await claimOne(store, 'zombie')
  await advance(lease)
  const [named] = (await sweep(store)).orphans
  assert.ok(named)
  assert.equal(await rescue(store, named), 'applied')
  const heir = await claimOne(store, 'heir')
  assert.equal(heir.id, zombie.id)
  return { zombie, heir }
}

/** Tokens that differ from the right one by a single letter, anywhere in it. */
function alterations(token: string): string[] {
  const changed = Array.from(
    token,
    (letter, i) => `${token.slice(0, i)}${letter === '0' ? '1' : '0'}${token.slice(i + 1)}`,
  )
  return [
    ...changed,
    `${token}0`,
    `0${token}`,
    token.slice(1),
    token.slice(0, -1),
    token.toUpperCase(),
    ` ${token}`,
  ].filter((text) => text !== token)
}

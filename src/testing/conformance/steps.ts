import assert from 'node:assert/strict'
import { released } from '../../core/lifecycle.js'
import type { StepRecord } from '../../core/step.js'
import type { Store } from '../../core/store.js'
import { held } from './extend.js'
import {
  claim,
  claimOne,
  complete,
  die,
  exists,
  insertMany,
  insertOne,
  lease,
  newJob,
  rescue,
  retention,
  retryIn,
  running,
  settle,
  stop,
  sweep,
  type Test,
} from './helpers.js'
import { nastyTexts } from './texts.js'

export function stepTests(test: Test): void {
  test('steps are kept in the order in which they were written, and one that comes again anew', async ({
    store,
  }) => {
    const job = await running(store)
    const [b, a, open] = [done('b', '{"x":1}'), done('a', undefined), sleeping('c', 99)]
    await write(store, job, [b, a])
    await write(store, job, [open])
    assert.deepEqual(await stepsOf(store, job.id), [b, a, open])
    const again = done('a', '"again"', 7)
    await write(store, job, [again])
    assert.deepEqual(await stepsOf(store, job.id), [b, again, open])
  })

  test('values of steps are kept as they are', async ({ store }) => {
    const job = await running(store)
    const steps = nastyTexts.map((text, i) => done(`step-${i}`, text))
    await write(store, job, steps)
    assert.deepEqual(await stepsOf(store, job.id), steps)
  })

  test('a claim tells whether there are steps of earlier runs', async ({ store, advance }) => {
    await insertOne(store)
    const first = await claimOne(store)
    assert.equal(first.stepped, false)
    await write(store, first, [done('a')])
    await settle(store, first, released())
    const second = await claimOne(store)
    assert.equal(second.stepped, true)
    await settle(store, second, retryIn(5))
    await advance(5)
    await sweep(store)
    const third = await claimOne(store)
    assert.equal(third.stepped, true)
    assert.deepEqual(await stepsOf(store, third.id), [done('a')])
  })

  test('each of many jobs has its own steps, and a job in a limited lane too', async ({ store }) => {
    const ids = await insertMany(store, 5, { traffic: { group: 'g', key: undefined, gated: false } })
    const claimed = await claim(store, 5)
    const all = claimed.map((job, i) => held(job, { steps: [done('own', `${i}`)] }))
    await store.extend({ worker: 'worker', lease, held: all })
    for (const [i, job] of claimed.entries())
      assert.deepEqual(await stepsOf(store, job.id), [done('own', `${i}`)])
    for (const job of claimed) await settle(store, job, released())
    const again = await claim(store, 5)
    assert.deepEqual(
      again.map(({ stepped }) => stepped),
      ids.map(() => true),
    )
  })

  test('a settlement carries steps too', async ({ store }) => {
    const job = await running(store)
    const report = { progress: undefined, logs: undefined, steps: [done('last', '1')] }
    await settle(store, job, complete(), { report })
    assert.deepEqual(await stepsOf(store, job.id), [done('last', '1')])
  })

  test('a zombie writes no step, by extend nor with a settlement', async ({ store, advance }) => {
    await insertOne(store)
    const zombie = await claimOne(store, 'zombie')
    await advance(lease)
    for (const orphan of (await sweep(store)).orphans) await rescue(store, orphan)
    const heir = await claimOne(store, 'heir')
    await write(store, heir, [done('a', '"heir"')], 'heir')
    const late = [done('a', '"zombie"'), done('b', '"zombie"')]
    const { lost } = await store.extend({
      worker: 'zombie',
      lease,
      held: [held(zombie, { steps: late })],
    })
    assert.deepEqual(lost, [zombie.id])
    const report = { progress: undefined, logs: undefined, steps: late }
    assert.equal(await settle(store, zombie, released(), { worker: 'zombie', report }), 'lost')
    for (const token of ['', 'x', `${heir.token}x`]) {
      const forged = [held({ id: heir.id, token }, { steps: late })]
      assert.deepEqual((await store.extend({ worker: 'heir', lease, held: forged })).lost, [heir.id])
    }
    assert.deepEqual(await stepsOf(store, heir.id), [done('a', '"heir"')])
  })

  test('a crash keeps the steps', async ({ store, advance }) => {
    await insertOne(store)
    const job = await claimOne(store)
    await write(store, job, [done('a')])
    await advance(lease)
    for (const orphan of (await sweep(store)).orphans) await rescue(store, orphan)
    const heir = await claimOne(store, 'heir')
    assert.equal(heir.stepped, true)
    assert.deepEqual(await stepsOf(store, heir.id), [done('a')])
  })

  for (const [name, outcome, keeps] of [
    ['dead', die(), true],
    ['cancelled', stop(), true],
    ['completed', complete(), false],
  ] as const) {
    test(`a replay of a ${name} job ${keeps ? 'keeps' : 'forgets'} its steps, a fresh one never does`, async ({
      store,
    }) => {
      const job = await running(store, { queue: 'main' })
      for (const fresh of [undefined, false, true]) {
        const [claimed = job] = await claim(store)
        await write(store, claimed, [done('a')])
        await settle(store, claimed, outcome)
        assert.deepEqual(await stepsOf(store, job.id), [done('a')], 'kept with the job')
        const change = fresh === undefined ? {} : { fresh }
        await store.operate({ ids: [job.id] }, { do: 'retry', delay: 0, spacing: 0, change })
        const kept = keeps && fresh !== true
        assert.deepEqual(await stepsOf(store, job.id), kept ? [done('a')] : [])
        const again = await claimOne(store)
        assert.equal(again.stepped, kept)
        await settle(store, again, released())
      }
    })
  }

  test('steps go with their job: removed, pruned, or never kept', async ({ store, advance }) => {
    for (const leave of [
      async (id: string) => void (await store.operate({ ids: [id] }, { do: 'remove' })),
      async () => {
        await advance(retention.completed)
        await sweep(store)
      },
    ]) {
      const job = await running(store)
      await write(store, job, [done('a')])
      await settle(store, job, complete())
      await leave(job.id)
      await expectForgotten(store, job.id)
    }
    const job = await running(store)
    await write(store, job, [done('a')])
    await settle(store, job, complete(undefined, { completed: 0, dead: 0 }))
    await expectForgotten(store, job.id)
    const many = [await insertMany(store, 3, { queue: 'many' })].flat()
    const claimed = await claim(store, 3, { queues: ['many'] })
    await store.extend({
      worker: 'worker',
      lease,
      held: claimed.map((one) => held(one, { steps: [done('a')] })),
    })
    const settlements = claimed.map(({ id, token }) => ({
      id,
      token,
      outcome: complete(undefined, { completed: 0, dead: 0 }),
      inserts: undefined,
    }))
    await store.exchange({ worker: 'worker', settlements, claim: undefined })
    for (const id of many) await expectForgotten(store, id)
  })

  test('a job that has steps is cancelled for a newer one of its key, which has its own id', async ({
    store,
  }) => {
    const dedupe = { key: 'k', mode: 'replace', window: 0, most: 0 } as const
    const first = await running(store, { queue: 'main', dedupe })
    await write(store, first, [done('a')])
    await settle(store, first, released())
    const newer = newJob({ dedupe, input: '"new"' })
    const [result] = await store.insert([newer])
    assert.equal(result?.status, 'inserted')
    assert.equal(await exists(store, first.id), false)
    const job = await claimOne(store)
    assert.deepEqual([job.id, job.input, job.stepped], [newer.id, '"new"', false])
    assert.equal((await store.insert([newJob({ dedupe })]))[0]?.status, 'inserted', 'it has the key')
  })
}

export function done(name: string, value?: string, at = 1): StepRecord {
  return { name, value, open: false, until: undefined, signal: undefined, at }
}

export function sleeping(name: string, until: number | undefined): StepRecord {
  return { name, value: undefined, open: true, until, signal: undefined, at: 1 }
}

async function write(
  store: Store,
  job: { readonly id: string; readonly token: string },
  steps: readonly StepRecord[],
  worker = 'worker',
): Promise<void> {
  const { lost } = await store.extend({ worker, lease, held: [held(job, { steps })] })
  assert.deepEqual(lost, [])
}

export async function stepsOf(store: Store, id: string): Promise<readonly StepRecord[] | undefined> {
  return (await store.trail(id))?.steps
}

/** An id that is used again shows whether anything of the job before it was left. */
async function expectForgotten(store: Store, id: string): Promise<void> {
  assert.equal(await exists(store, id), false)
  assert.equal(await store.trail(id), undefined)
  await store.insert([newJob({ id, queue: 'other' })])
  assert.deepEqual(await stepsOf(store, id), [])
  const [again] = await claim(store, 1, { queues: ['other'] })
  assert.equal(again?.stepped, false)
  await settle(store, again as { id: string; token: string }, complete())
}

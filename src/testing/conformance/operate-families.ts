/** One command over jobs that wait for each other: what it does to one of them changes those that come after. */
import assert from 'node:assert/strict'
import { jobStates } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import { cancelCommand, childOf, endNext, ofChild, parent, retryCommand } from './family-jobs.js'
import { claim, die, idsOf, listAll, stateOf, statesOfAll, type Test } from './helpers.js'

export function operateFamilies(test: Test): void {
  test('a job that was woken by the removal of its child is removed as the ready job that it is', async ({
    store,
  }) => {
    const [low, middle, top] = await chain(store)
    const report = await store.operate({ ids: [middle, top] }, { do: 'remove' })
    assert.deepEqual([report.affected, report.refused], [[middle, top], []])
    assert.deepEqual(await store.get([middle, top]), [undefined, undefined])
    await countsAreTrue(store)
    assert.deepEqual(idsOf(await claim(store, 10)), [low])
  })

  test('a job that was woken by the cancel of its child is cancelled as the ready job that it is', async ({
    store,
  }) => {
    const [low, middle, top] = await chain(store)
    const report = await store.operate({ ids: [middle, top] }, cancelCommand)
    assert.deepEqual([report.affected, report.refused], [[middle, top], []])
    for (const id of [low, middle, top]) assert.equal(await stateOf(store, id), 'cancelled')
    await countsAreTrue(store)
    assert.deepEqual(await claim(store, 10), [])
  })

  for (const by of ['filter', 'ids'] as const) {
    test(`the dead by ${by}: those that the replay of a child revived are not replayed once more`, async ({
      store,
    }) => {
      const top = parent()
      const middle = childOf([top], {}, { waits: 'sealed' })
      const low = childOf([middle])
      await store.insert([top, middle, low])
      await endNext(store, die())
      await endNext(store, die(ofChild))
      await endNext(store, die(ofChild))
      const ids = [low.id, middle.id, top.id]
      const selector = by === 'ids' ? { ids } : { filter: { state: 'dead' } as const, limit: 10 }
      const report = await store.operate(selector, retryCommand)
      assert.deepEqual([report.affected, report.refused], [[low.id], [middle.id, top.id]])
      await countsAreTrue(store)
      assert.deepEqual(await store.causes(), [])
      for (const id of ids) assert.equal(await endNext(store), id)
      await countsAreTrue(store)
    })
  }

  test('a parent that is replayed before its child waits for it', async ({ store }) => {
    const top = parent()
    const low = childOf([top])
    await store.insert([top, low])
    await endNext(store, die())
    await endNext(store, die(ofChild))
    const report = await store.operate({ ids: [top.id, low.id] }, retryCommand)
    assert.deepEqual([report.affected, report.refused], [[top.id, low.id], []])
    await countsAreTrue(store)
    for (const id of [low.id, top.id]) assert.equal(await endNext(store), id)
  })
}

/** Three in a row; the last one waits for the middle one, which waits for the first. */
async function chain(store: Store): Promise<[low: string, middle: string, top: string]> {
  const top = parent()
  const middle = childOf([top], {}, { waits: 'sealed' })
  const low = childOf([middle])
  await store.insert([top, middle, low])
  return [low.id, middle.id, top.id]
}

async function countsAreTrue(store: Store): Promise<void> {
  const counts = await statesOfAll(store)
  for (const state of jobStates)
    assert.equal(counts[state], (await listAll(store, { state })).length, `${state} jobs`)
}

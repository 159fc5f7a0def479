/** Whether what a store shows is true of the jobs there are. */
import assert from 'node:assert/strict'
import type { Store } from '../../../src/core/store.js'
import { linksOf } from '../../../src/testing/conformance/family-jobs.js'
import {
  checkCounts,
  checkLists,
  look,
  type StoreView,
} from '../../../src/testing/conformance/lockstep-view.js'

export async function audit(store: Store, ids: readonly string[]): Promise<StoreView> {
  const view = await quietLook(store, ids)
  checkCounts(view)
  await checkLists(store, view)
  return view
}

/** When all is done: no gate counts anything, no child is waited for, and no parent waits. */
export async function auditEnd(
  store: Store,
  ids: readonly string[],
  parents: readonly string[],
): Promise<void> {
  const { gates, records } = await audit(store, ids)
  for (const { ref, pending, running } of gates)
    assert.deepEqual({ pending, running }, { pending: 0, running: 0 }, `gate ${JSON.stringify(ref)}`)
  const open = (await linksOf(store, { parents })).filter(({ end }) => end === undefined)
  assert.deepEqual(open, [], 'children that are still waited for')
  const blocked = records.filter((record) => record?.state === 'blocked')
  assert.deepEqual(blocked, [], 'parents that still wait')
}

/** A look is made of several calls; jobs that were given to a worker, and not taken, may come back between them. */
async function quietLook(store: Store, ids: readonly string[]): Promise<StoreView> {
  for (let last = ''; ; ) {
    const view = await look(store, ids)
    const text = JSON.stringify(view)
    if (text === last) return view
    last = text
  }
}

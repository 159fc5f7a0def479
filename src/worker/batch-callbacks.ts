import type { BatchInput } from '../client/built-in.js'
import { linksOf } from '../client/links.js'
import type { Runtime } from '../client/runtime.js'
import type { Family } from '../core/family.js'
import type { NewJob } from '../core/job.js'
import { completed, type Outcome, waiting } from '../core/lifecycle.js'
import { decode } from './execute.js'
import type { Run } from './run.js'

/**
 * What becomes of a batch that woke: all of its jobs have ended, one of them has died, or nobody has sealed it in
 * time. That a death was told is kept with the batch: the callback's own job may be gone long before the end.
 */
export async function wakeBatch(run: Run, family: Family, runtime: Runtime): Promise<Outcome> {
  const { onComplete, onSuccess, onDead, patience } = decode(run, runtime) as BatchInput
  const { died, failed } = await failuresOf(run.job.id, runtime)
  const ofDeath = died && !run.job.stepped ? [onDead] : []
  if (family.waiting === 0) {
    run.inserts = given([...ofDeath, onComplete, failed ? undefined : onSuccess])
    return completed(undefined, run.policy.retain)
  }
  const sealBy = run.job.createdAt + patience
  const isOverdue = family.open && run.storeTime() >= sealBy
  if (isOverdue) await runtime.store.operate({ ids: [run.job.id] }, { do: 'seal' })
  if (ofDeath.length > 0) {
    run.consequences = given(ofDeath)
    run.remember('onDead')
  }
  const until = family.open && !isOverdue ? sealBy : undefined
  return waiting({ until, signals: [], children: true, fans: [] })
}

async function failuresOf(id: string, runtime: Runtime): Promise<{ died: boolean; failed: boolean }> {
  let failed = false
  for await (const { end } of linksOf(runtime, { parents: [id], failed: true })) {
    failed = true
    if (end === 'dead') return { died: true, failed }
  }
  return { died: false, failed }
}

function given(jobs: readonly (NewJob | undefined)[]): NewJob[] | undefined {
  const some = jobs.filter((job) => job !== undefined)
  return some.length === 0 ? undefined : some
}

/** Parents and children to test with. */
import assert from 'node:assert/strict'
import type { FailurePolicy, LinkRecord, NewFamily } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { InsertResult, LinkQuery, Store } from '../../core/store.js'
import { claimOne, complete, failureOf, fresh, newJob, read, settle } from './helpers.js'

export const reason = 'no longer wanted'
export const cancelCommand = { do: 'cancel', reason, retain: 60_000 } as const
export const retryCommand = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
export const died = failureOf('greet', 'it is over')
export const root = { id: 'x', name: 'greet', message: died.message, cause: died.cause }
export const ofChild = { ...died, code: 'CHILD_FAILED' }

export function parent(fields: Partial<NewJob> = {}, family: Partial<NewFamily> = {}): NewJob {
  const id = fields.id ?? fresh('parent')
  const own = { flow: id, node: undefined, parents: [], waits: 'sealed', patience: 60_000 } as const
  return newJob({ ...fields, id, family: { ...own, ...family } })
}

export function childOf(
  parents: readonly (NewJob | string)[],
  fields: Partial<NewJob> = {},
  { onFailure = 'fail', wakes = false, waits = 'no', fan }: ChildFields = {},
): NewJob {
  const links = parents.map((one) => ({
    id: typeof one === 'string' ? one : one.id,
    onFailure,
    wakes,
    undo: undefined,
    fan,
  }))
  const flow = links[0]?.id ?? ''
  return newJob({
    id: fresh('child'),
    ...fields,
    family: { flow, node: undefined, parents: links, waits, patience: 60_000 },
  })
}

interface ChildFields {
  readonly onFailure?: FailurePolicy
  readonly wakes?: boolean
  readonly waits?: NewFamily['waits']
  readonly fan?: string | undefined
}

export async function linksOf(
  store: Store,
  query: Omit<LinkQuery, 'limit'>,
  limit = 100,
): Promise<LinkRecord[]> {
  const found: LinkRecord[] = []
  let cursor: string | undefined
  for (let page = 0; page < 10_000; page++) {
    const { links, cursor: next } = await store.links({ ...query, limit, cursor })
    assert.ok(links.length <= limit, 'a page holds no more than its limit')
    found.push(...links)
    cursor = next
    if (cursor === undefined) return found
  }
  throw new Error('the pages of links() do not end')
}

export async function countsOf(store: Store, id: string) {
  const { family } = await read(store, id)
  return family && { children: family.children, waiting: family.waiting, failed: family.failed }
}

/** Claims the one job that is ready and settles it. */
export async function endNext(store: Store, outcome = complete()): Promise<string> {
  const job = await claimOne(store)
  assert.equal(await settle(store, job, outcome), 'applied')
  return job.id
}

export function statuses(results: readonly InsertResult[]): string[] {
  return results.map(({ status }) => status)
}

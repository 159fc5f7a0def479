/** Jobs that wait for others: counts, links, replays, cancels. What ends mean is for the worker to decide. */
import assert from 'node:assert/strict'
import type { FailurePolicy, LinkRecord, NewFamily } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import type { InsertResult, LinkQuery, Store } from '../../core/store.js'
import {
  claim,
  claimOne,
  complete,
  die,
  failureOf,
  fresh,
  insertOne,
  lease,
  newJob,
  read,
  rescue,
  settle,
  stateOf,
  stop,
  sweep,
  type Test,
} from './helpers.js'

const reason = 'no longer wanted'
const cancelCommand = { do: 'cancel', reason, retain: 60_000 } as const
const retryCommand = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
const died = failureOf('greet', 'it is over')
const root = { id: 'x', name: 'greet', message: died.message, cause: died.cause }
const ofChild = { ...died, code: 'CHILD_FAILED' }

export function parent(fields: Partial<NewJob> = {}, family: Partial<NewFamily> = {}): NewJob {
  const id = fields.id ?? fresh('parent')
  const own = { flow: id, node: undefined, parents: [], waits: 'sealed', patience: 60_000 } as const
  return newJob({ ...fields, id, family: { ...own, ...family } })
}

export function childOf(
  parents: readonly (NewJob | string)[],
  fields: Partial<NewJob> = {},
  { onFailure = 'fail', wakes = false, waits = 'no' }: ChildFields = {},
): NewJob {
  const links = parents.map((one) => ({
    id: typeof one === 'string' ? one : one.id,
    onFailure,
    wakes,
    undo: undefined,
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

async function countsOf(store: Store, id: string) {
  const { family } = await read(store, id)
  return family && { children: family.children, waiting: family.waiting, failed: family.failed }
}

/** Claims the one job that is ready and settles it. */
async function endNext(store: Store, outcome = complete()): Promise<string> {
  const job = await claimOne(store)
  assert.equal(await settle(store, job, outcome), 'applied')
  return job.id
}

function statuses(results: readonly InsertResult[]): string[] {
  return results.map(({ status }) => status)
}

export function familyTests(test: Test): void {
  test('a parent is ready when its last child has ended', async ({ store }) => {
    const top = parent()
    const children = [childOf([top]), childOf([top])]
    const results = await store.insert([top, ...children])
    assert.deepEqual(
      results.map(({ status, state }) => [status, state]),
      [
        ['inserted', 'blocked'],
        ['inserted', 'pending'],
        ['inserted', 'pending'],
      ],
    )
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 2, failed: 0 })
    await endNext(store, complete('1'))
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store, complete('2'))
    assert.equal(await stateOf(store, top.id), 'pending')
    const job = await claimOne(store)
    assert.deepEqual(job.family, {
      flow: top.id,
      node: undefined,
      parents: [],
      children: 2,
      waiting: 0,
      failed: 0,
      open: false,
    })
  })

  test('children that complete together count each', async ({ store }) => {
    const top = parent()
    const other = parent()
    const children = Array.from({ length: 20 }, (_, i) => childOf(i % 2 === 0 ? [top] : [top, other]))
    await store.insert([top, other, ...children])
    const jobs = await claim(store, 20)
    const settlements = jobs.map(({ id, token }) => ({
      id,
      token,
      outcome: complete(`"${id}"`),
      inserts: undefined,
    }))
    await store.exchange({ worker: 'worker', settlements: settlements.slice(0, 19), claim: undefined })
    assert.equal((await countsOf(store, top.id))?.waiting, 1)
    await store.exchange({ worker: 'worker', settlements: settlements.slice(19), claim: undefined })
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.equal(await stateOf(store, other.id), 'pending')
    const links = await linksOf(store, { parents: [top.id] }, 7)
    assert.deepEqual(
      links.map(({ child, result }) => [child, result]),
      [...children].sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ id }) => [id, `"${id}"`]),
    )
  })

  test('a link keeps what became of a child that is not kept', async ({ store, advance }) => {
    const top = parent()
    const children = [childOf([top], { id: 'a' }), childOf([top], { id: 'b' }), childOf([top], { id: 'c' })]
    await store.insert([top, ...children])
    const jobs = await claim(store, 3)
    const gone = { completed: 0, dead: 0 }
    const outcomes = [complete('"ok"', gone), die({ ...ofChild, root }, gone), stop(reason, gone)]
    await advance(5)
    for (const [i, job] of jobs.entries()) await settle(store, job, outcomes[i] as (typeof outcomes)[0])
    const [a, b, c] = await linksOf(store, { parents: [top.id] })
    assert.deepEqual([a?.end, a?.result, a?.failure], ['completed', '"ok"', undefined])
    assert.deepEqual([b?.end, b?.result, b?.failure?.message], ['dead', undefined, died.message])
    assert.deepEqual(b?.failure?.root, root)
    assert.deepEqual([c?.end, c?.result], ['cancelled', undefined])
    assert.deepEqual(await store.get(['a', 'b', 'c']), [undefined, undefined, undefined])
    assert.deepEqual(await countsOf(store, top.id), { children: 3, waiting: 0, failed: 2 })
  })

  test('only children that stand in the way are counted as failed', async ({ store }) => {
    const top = parent()
    const policies: FailurePolicy[] = ['fail', 'continue', 'ignore', 'compensate']
    await store.insert([top, ...policies.map((onFailure) => childOf([top], {}, { onFailure }))])
    for (const _ of policies) await endNext(store, die())
    assert.deepEqual(await countsOf(store, top.id), { children: 4, waiting: 0, failed: 2 })
    const failed = await linksOf(store, { parents: [top.id], failed: true })
    assert.equal(failed.length, 4)
  })

  test('a job without a parent that waits is an orphan', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top])])
    assert.deepEqual(statuses(await store.insert([childOf(['nobody']), childOf([top, 'nobody'])])), [
      'orphaned',
      'orphaned',
    ])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
    await endNext(store)
    // It is about to run and would not notice.
    assert.deepEqual(statuses(await store.insert([childOf([top])])), ['orphaned'])
    await endNext(store)
    assert.deepEqual(statuses(await store.insert([childOf([top])])), ['orphaned'])
  })

  test('a child is added once, whether it is still there or not', async ({ store }) => {
    const top = parent({}, { waits: 'open' })
    const child = childOf([top])
    await store.insert([top, child])
    assert.deepEqual(statuses(await store.insert([child])), ['duplicate'])
    await endNext(store, complete('1', { completed: 0, dead: 0 }))
    assert.deepEqual(statuses(await store.insert([child])), ['duplicate'])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
    assert.deepEqual(await store.get([child.id]), [undefined])
  })

  test('an open parent waits until it is sealed', async ({ store }) => {
    const top = parent({}, { waits: 'open' })
    await store.insert([top, childOf([top])])
    await endNext(store)
    assert.equal((await read(store, top.id)).family?.open, true)
    assert.equal(await stateOf(store, top.id), 'blocked')
    await store.insert([childOf([top])])
    const seal = () => store.operate({ ids: [top.id] }, { do: 'seal' })
    assert.deepEqual((await seal()).affected, [top.id])
    assert.deepEqual((await seal()).refused, [top.id])
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'pending')
    const empty = parent({}, { waits: 'open' })
    await store.insert([empty])
    await store.operate({ ids: [empty.id] }, { do: 'seal' })
    assert.equal(await stateOf(store, empty.id), 'pending')
  })

  test('an open parent wakes when its patience is over, not before, and not once it is sealed', async ({
    store,
    advance,
  }) => {
    const [top, sealed] = [parent({}, { waits: 'open' }), parent({}, { waits: 'open' })]
    await store.insert([top, childOf([top]), sealed, childOf([sealed])])
    await store.operate({ ids: [sealed.id] }, { do: 'seal' })
    await advance(59_999)
    const report = await sweep(store)
    assert.deepEqual([report.promoted, report.nextDue], [0, 1])
    await advance(1)
    assert.equal((await sweep(store)).promoted, 1)
    assert.equal(await stateOf(store, sealed.id), 'blocked')
    const jobs = await claim(store, 10)
    assert.equal(jobs.find(({ id }) => id === top.id)?.family?.open, true)
  })

  test('the first death wakes a parent that wants to know, and only the first', async ({ store }) => {
    const top = parent()
    const wakes = { onFailure: 'continue', wakes: true } as const
    await store.insert([top, ...[1, 2, 3, 4].map(() => childOf([top], {}, wakes))])
    await endNext(store, stop())
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store, die())
    assert.equal(await stateOf(store, top.id), 'pending')
    const jobs = await claim(store, 10)
    const own = jobs.find(({ id }) => id === top.id)
    assert.ok(own)
    assert.equal(
      await settle(store, own, waiting({ until: undefined, signals: [], children: true })),
      'applied',
    )
    const [second, third] = jobs.filter(({ id }) => id !== top.id)
    await settle(store, second as typeof own, die())
    assert.equal(await stateOf(store, top.id), 'blocked')
    await settle(store, third as typeof own, complete())
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('a run adds children to its own job, fenced by its lease', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const child = childOf([id])
    const held = { id, token: job.token, progress: undefined, logs: undefined, inserts: [child] }
    const extend = (token: string) => store.extend({ worker: 'worker', lease, held: [{ ...held, token }] })
    assert.deepEqual((await extend('wrong')).lost, [id])
    assert.deepEqual(await store.get([child.id]), [undefined])
    assert.deepEqual((await extend(job.token)).lost, [])
    assert.deepEqual((await extend(job.token)).lost, [])
    assert.deepEqual(await countsOf(store, id), { children: 1, waiting: 1, failed: 0 })
    await settle(store, job, waiting({ until: undefined, signals: [], children: true }))
    assert.equal(await stateOf(store, id), 'blocked')
    assert.equal(await endNext(store), child.id)
    assert.equal(await stateOf(store, id), 'pending')
  })

  test('a job that waits for children that have ended meanwhile goes on at once', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const child = childOf([id])
    await store.extend({
      worker: 'worker',
      lease,
      held: [{ id, token: job.token, progress: undefined, logs: undefined, inserts: [child] }],
    })
    await endNext(store)
    await settle(store, job, waiting({ until: undefined, signals: [], children: true }))
    assert.equal(await stateOf(store, id), 'pending')
  })

  test('a lost worker that dies of it counts for the parent', async ({ store, advance }) => {
    const top = parent()
    await store.insert([top, childOf([top], { maxCrashes: 1 })])
    await claimOne(store)
    await advance(lease + 1)
    const { orphans } = await sweep(store)
    assert.equal(await rescue(store, orphans[0] as (typeof orphans)[0]), 'applied')
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 0, failed: 1 })
  })
}

export function familyReplayTests(test: Test): void {
  test('a child that is replayed is waited for again', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top]), childOf([top])])
    const id = await endNext(store, die())
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 1, failed: 1 })
    await store.operate({ ids: [id] }, retryCommand)
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 2, failed: 0 })
    await endNext(store)
    await endNext(store)
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 0, failed: 0 })
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('whoever died only of it, directly or not, waits for it again', async ({ store }) => {
    const top = parent()
    const middle = childOf([top], {}, { waits: 'sealed' })
    const low = childOf([middle])
    await store.insert([top, middle, low])
    assert.equal(await endNext(store, die()), low.id)
    assert.equal(await endNext(store, die(ofChild)), middle.id)
    assert.equal(await endNext(store, die(ofChild)), top.id)
    assert.equal((await store.causes()).length, 1)
    await store.operate({ ids: [low.id] }, retryCommand)
    assert.deepEqual(
      (await store.get([top.id, middle.id, low.id])).map((job) => [job?.state, job?.attempt, job?.expiresAt]),
      [
        ['blocked', 0, undefined],
        ['blocked', 0, undefined],
        ['pending', 0, undefined],
      ],
    )
    assert.deepEqual(await store.causes(), [])
    for (const id of [low.id, middle.id, top.id]) assert.equal(await endNext(store), id)
  })

  test('who died of something else stays dead', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top], {}, { onFailure: 'continue' })])
    const child = await endNext(store, die())
    await endNext(store, die())
    await store.operate({ ids: [child] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'dead')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'dead')
  })

  test('a parent that is replayed keeps in mind what failed, and waits for what has not ended', async ({
    store,
  }) => {
    const top = parent()
    await store.insert([top, childOf([top]), childOf([top])])
    const first = await endNext(store, die())
    await endNext(store)
    const job = await claimOne(store)
    await settle(store, job, die(ofChild))
    await store.operate({ ids: [top.id] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 0, failed: 1 })
    await store.operate({ ids: [first] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'blocked')
    assert.deepEqual(await countsOf(store, top.id), { children: 2, waiting: 1, failed: 0 })
    await endNext(store)
    assert.equal((await claimOne(store)).id, top.id)
  })

  test('one that is cancelled waits for its child when both are replayed', async ({ store }) => {
    const top = parent()
    const child = childOf([top])
    await store.insert([top, child])
    await store.operate({ ids: [top.id] }, cancelCommand)
    await store.operate({ ids: [child.id] }, retryCommand)
    assert.equal(await stateOf(store, top.id), 'cancelled')
    await store.operate({ ids: [top.id] }, { ...retryCommand, delay: 1_000 })
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('a parent that runs while its child is replayed does not die of it', async ({ store }) => {
    const top = parent()
    const child = childOf([top])
    await store.insert([top, child])
    await endNext(store, die())
    const job = await claimOne(store)
    assert.equal(job.id, top.id)
    await store.operate({ ids: [child.id] }, retryCommand)
    await settle(store, job, die(ofChild))
    assert.equal(await stateOf(store, top.id), 'blocked')
    await endNext(store)
    assert.equal(await stateOf(store, top.id), 'pending')
    assert.deepEqual(await store.causes(), [])
  })

  test('a long line of those that died of each other is revived as a whole', async ({ store }) => {
    const jobs: NewJob[] = [parent()]
    for (let i = 0; i < 4_000; i++)
      jobs.push(childOf([jobs.at(-1) as NewJob], {}, { waits: i < 3_999 ? 'sealed' : 'no' }))
    await store.insert(jobs)
    await endNext(store, die())
    for (let i = 0; i < 4_000; i++) await endNext(store, die(ofChild))
    await store.operate({ ids: [jobs.at(-1)?.id ?? ''] }, retryCommand)
    const { kinds } = await store.counts()
    assert.deepEqual(
      kinds.map(({ states }) => [states.blocked, states.pending, states.dead]),
      [[4_000, 1, 0]],
    )
  })
}

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

  test('links go with their parent', async ({ store }) => {
    const top = parent()
    await store.insert([top, childOf([top])])
    await endNext(store)
    await store.operate({ ids: [top.id] }, { do: 'remove' })
    assert.deepEqual(await linksOf(store, { parents: [top.id] }), [])
    await store.insert([parent({ id: top.id }), childOf([top])])
    assert.deepEqual(await countsOf(store, top.id), { children: 1, waiting: 1, failed: 0 })
  })

  test('links of several parents are read page by page, of one definition', async ({ store }) => {
    const [a, b] = [parent({ id: 'a' }), parent({ id: 'b' })]
    const names = ['x', 'y', 'x', 'y', 'x']
    const children = names.map((name, i) => childOf([a, b], { id: `c${i}`, name }))
    await store.insert([a, b, ...children])
    for (const limit of [1, 2, 3, 100]) {
      const found = await linksOf(store, { parents: ['b', 'nobody', 'a'], name: 'x' }, limit)
      assert.deepEqual(
        found.map(({ parent: of, child }) => `${of}${child}`),
        ['bc0', 'bc2', 'bc4', 'ac0', 'ac2', 'ac4'],
      )
    }
  })
}

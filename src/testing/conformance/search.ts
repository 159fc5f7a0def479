import assert from 'node:assert/strict'
import { isMendable } from '../../core/child-failed.js'
import { type JobRecord, type JobState, jobStates, type NewJob } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import { type FieldValue, hasField, markOf } from '../../core/search.js'
import type { JobFilter, Store } from '../../core/store.js'
import {
  claim,
  complete,
  die,
  failureOf,
  idsOf,
  insertMany,
  insertOne,
  jobIn,
  listAll,
  newJob,
  randomFrom,
  replay,
  retryIn,
  settle,
  stop,
  sweep,
  type Test,
  timeOf,
  wait,
} from './helpers.js'

/** Lists by what few jobs have. */
export function searchTests(test: Test): void {
  for (const state of jobStates) {
    test(`${state} jobs are found by a field of their input, indexed or not`, async ({ store }) => {
      const ids = new Map<FieldValue, string>()
      for (const value of values)
        ids.set(value, await jobIn(store, state, withField('order.id', value, { order: { id: value } })))
      await jobIn(store, state, { input: '{"order":[{"id":1}]}' })
      await jobIn(store, state, { input: '{"id":1,"order":1}' })
      await jobIn(store, state, { input: '{"order":{"id":{"id":1}}}' })
      await jobIn(store, state, { input: '[1]' })
      await jobIn(store, state, { input: 'null' })
      for (const [value, id] of ids)
        for (const indexed of [false, true]) {
          const field = { path: 'order.id', value, indexed }
          assert.deepEqual(idsOf(await listAll(store, { state, field }, 2)), [id], JSON.stringify(field))
        }
      for (const indexed of [false, true])
        for (const [path, value] of [
          ['order.id', 2],
          ['order.id', 'one'],
          ['order', 2],
          ['id', 2],
          ['order.id.id', 2],
        ] as const)
          assert.deepEqual(await listAll(store, { state, field: { path, value, indexed } }), [])
    })
  }

  test('only what was taken from the input at enqueue counts as indexed', async ({ store }) => {
    const input = { user: 'ada' }
    const marked = await insertOne(store, withField('user', 'ada', input))
    const other = await insertOne(store, { input: JSON.stringify(input) })
    const field = { path: 'user', value: 'ada' }
    const found = async (indexed?: boolean) =>
      idsOf(await listAll(store, { state: 'pending', field: { ...field, indexed } }))
    assert.deepEqual(await found(true), [marked])
    assert.deepEqual(await found(false), [marked, other])
    assert.deepEqual(await found(), [marked, other])
  })

  test('an input that no field can be read from is passed by', async ({ store }) => {
    const texts = [
      '{"user":"\\u0000"}',
      '{"user":"\\ud800"}',
      '{"user":"ada","x":"\\u0000\\udc00"}',
      'user: ada',
    ]
    for (const input of texts) await insertOne(store, { input })
    const found = await listAll(store, { state: 'pending', field: { path: 'user', value: 'ada' } })
    assert.deepEqual(
      found.map(({ input }) => input),
      texts.slice(2, 3),
    )
  })

  test('another input has other fields', async ({ store }) => {
    const id = await jobIn(store, 'dead', withField('user', 'ada', { user: 'ada' }))
    const kept = await jobIn(store, 'dead', withField('user', 'ada', { user: 'ada' }))
    const { input, search = null } = withField('user', 'bob', { user: 'bob' })
    await replay(store, id, { input: input as string, search })
    await replay(store, kept)
    const found = async (value: string) =>
      idsOf(await listAll(store, { state: 'pending', field: { path: 'user', value, indexed: true } }))
    assert.deepEqual([await found('ada'), await found('bob')], [[kept], [id]])
    const [again] = await claim(store, 1, { queues: [(await store.get([id]))[0]?.queue as string] })
    await settle(store, again as never, die())
    await replay(store, id, { input: '{}', search: null })
    assert.deepEqual([await found('ada'), await found('bob')], [[kept], []])
  })

  test('a job that is gone is not found by what it had', async ({ store, advance }) => {
    const job = { ...withField('user', 'ada', { user: 'ada' }), tags: ['ada'] }
    const ids = await insertMany(store, 4, job)
    const [forgotten, pruned, removed] = await claim(store, 3)
    await settle(store, forgotten as never, complete(undefined, { completed: 0, dead: 0 }))
    await settle(store, pruned as never, complete(undefined, { completed: 10, dead: 0 }))
    await settle(store, removed as never, die())
    await advance(20)
    await sweep(store)
    await store.operate({ ids: ids.slice(2) }, { do: 'remove' })
    await insertMany(store, 2, job)
    for (const state of jobStates)
      for (const filter of [{ tag: 'ada' }, { field: { path: 'user', value: 'ada', indexed: true } }]) {
        const found = await listAll(store, { state, ...filter })
        assert.equal(found.length, state === 'pending' ? 2 : 0, state)
      }
  })

  for (const seed of [1, 2, 3]) {
    test(`each filter gives its part of the whole list, in its order, seed ${seed}`, async ({
      store,
      advance,
    }) => {
      const random = randomFrom(seed)
      const marks = await crowd(store, advance, random)
      const now = await timeOf(store)
      for (const state of jobStates) {
        const all = await listAll(store, { state }, 1 + random(50))
        assert.equal(new Set(idsOf(all)).size, all.length, `${state}: none twice`)
        assert.ok(all.length > 0, `${state}: there are some`)
        for (let i = 0; i < 16; i++) {
          const filter = { state, ...someFilter(random, now, all) }
          const found = await listAll(store, filter, 1 + random(20))
          const wanted = all.filter((job) => matches(job, marks.get(job.id), filter))
          assert.deepEqual(idsOf(found), idsOf(wanted), JSON.stringify(filter))
        }
      }
    })
  }
}

const values = ['one two', 1, -1.5, true, false, null, '', 'ümläut "quoted"\\', '1', 'null', 1e21] as const

/** A job with this input, and the mark of one of its fields. */
function withField(path: string, value: FieldValue, input: object): Partial<NewJob> {
  return { input: JSON.stringify(input), search: [markOf({ path, value })] }
}

const causes = [failureOf('n0', 'one'), failureOf('n1', 'two')]
const queues = ['q0', 'q1', 'q2']

/** Many jobs in all states, alike in some ways: what they are found by, by id. */
async function crowd(
  store: Store,
  advance: (ms: number) => Promise<void> | void,
  random: (below: number) => number,
): Promise<ReadonlyMap<string, readonly string[] | undefined>> {
  const marks = new Map<string, readonly string[] | undefined>()
  for (let round = 0; round < 12; round++) {
    const jobs = Array.from({ length: 50 }, () => someJob(random))
    for (const { id, search } of jobs) marks.set(id, search)
    await store.insert(jobs)
    const claimed = await claim(store, round === 11 ? 20 : 40, { queues, leaseMs: 100_000_000 })
    if (round === 11) break // these go on running
    const half = Math.floor(claimed.length / 2)
    await settleAlike(store, claimed.slice(0, half))
    for (const job of claimed.slice(half)) await settle(store, job, someEnd(random))
    await advance(random(40))
    if (round % 4 === 3) await sweep(store)
    const filter = { state: (['dead', 'completed', 'cancelled'] as const)[random(3)] as JobState }
    const change = { queue: `q${random(3)}`, lane: random(laneCount) }
    await store.operate({ filter, limit: 2 }, { do: 'retry', delay: random(2) * 500, spacing: 0, change })
    await store.operate({ filter, limit: 1 }, { do: 'remove' })
  }
  return marks
}

/** Together: an engine may keep those in one piece that ended so. */
async function settleAlike(
  store: Store,
  jobs: readonly { readonly id: string; readonly token: string }[],
): Promise<void> {
  const settlements = jobs.map(({ id, token }) => ({ id, token, outcome: complete(), inserts: undefined }))
  await store.exchange({ worker: 'worker', settlements, claim: undefined })
}

function someJob(random: (below: number) => number): NewJob {
  const of = random(4)
  const isMarked = random(2) === 0
  return newJob({
    queue: `q${random(3)}`,
    name: `n${random(3)}`,
    lane: random(8) === 0 ? random(laneCount) : 2,
    delay: random(4) === 0 ? 1_000 + random(1_000) : 0,
    ...(random(3) === 0 && { tags: random(2) === 0 ? ['a', 'b'] : ['b'] }),
    ...(random(6) === 0 && { traffic: { gated: false, group: `g${random(2)}`, key: undefined } }),
    input: JSON.stringify({ of }),
    ...(isMarked && { search: [markOf({ path: 'of', value: of })] }),
  })
}

function someEnd(random: (below: number) => number) {
  const keep = { completed: 500_000 + random(3) * 100_000, dead: 500_000 + random(3) * 100_000 }
  const ends = [
    complete('1', keep),
    die(causes[random(2)], keep),
    stop('no', keep),
    retryIn(500_000 + random(9)),
    wait(),
  ]
  return ends[random(ends.length)] ?? wait()
}

function someFilter(
  random: (below: number) => number,
  now: number,
  all: readonly JobRecord[],
): Omit<JobFilter, 'state'> {
  const one = all[random(all.length)]
  const at = one === undefined ? now : timeIn(one)
  const some = <T extends object>(part: T): Partial<T> => (random(3) === 0 ? part : {})
  return {
    ...some({ queue: `q${random(4)}` }),
    ...some({ name: `n${random(4)}` }),
    ...some({ tag: ['a', 'b', 'c'][random(3)] as string }),
    ...some({ field: { path: 'of', value: random(5), indexed: random(2) === 0 } }),
    ...some({ after: at - random(30) }),
    ...some({ before: at + random(30) }),
    ...(one?.state === 'dead' ? some({ cause: causes[random(2)]?.cause as string }) : {}),
    ...(one?.state === 'dead' ? some({ mendable: true }) : {}),
  }
}

function matches(job: JobRecord, search: readonly string[] | undefined, filter: JobFilter): boolean {
  const { queue, name, tag, field, after, before, cause, mendable } = filter
  return (
    (queue === undefined || job.queue === queue) &&
    (name === undefined || job.name === name) &&
    (tag === undefined || job.tags?.includes(tag) === true) &&
    (field === undefined || hasField({ input: job.input, search }, field)) &&
    (after === undefined || timeIn(job) >= after) &&
    (before === undefined || timeIn(job) < before) &&
    (cause === undefined || job.failure?.cause === cause) &&
    (mendable !== true || isMendable(job.failure))
  )
}

/** The time that `after` and `before` are about. */
function timeIn({ state, createdAt, dueAt, startedAt, finishedAt }: JobRecord): number {
  if (state === 'scheduled' || state === 'retrying') return dueAt ?? 0
  if (state === 'blocked') return dueAt ?? createdAt
  if (state === 'running') return startedAt ?? 0
  return finishedAt ?? createdAt
}

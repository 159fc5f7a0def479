/** Jobs with limits or groups are started and ended by their places; where that does not do, they are looked at. */
import { expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import { claim, complete, read, retention, retryIn, settle } from '../../src/testing/conformance/helpers.js'
import { choose, queueGate } from '../../src/testing/conformance/traffic-helpers.js'
import { VirtualClock } from '../../src/testing/virtual-clock.js'
import { newJob } from '../new-job.js'
import { before, twice, watchRefusals } from './intercept.js'
import { admin, freshPrefix, openStore } from './redis.js'

const inGroup = (group: string) => ({ gated: false, group, key: undefined })

test('limits hold over more jobs than a script takes at once, and all of them are done', async () => {
  const { store } = await openGoverned()
  const jobs = Array.from({ length: 3_500 }, (_, i) =>
    newJob({ id: `job-${i}`, input: String(i), traffic: inGroup(`g${i % 40}`) }),
  )
  await store.configure({
    gate: { of: 'queue', name: 'main' },
    change: { limit: { concurrency: 1_500 }, each: { concurrency: 60 } },
    declared: true,
  })
  await store.insert(jobs)
  const left = new Map(jobs.map(({ id, input }) => [id, input]))
  let held: readonly ClaimedJob[] = []
  while (left.size > 0) {
    const more = await claim(store, 2_000)
    held = [...held, ...more]
    expect(held.length).toBe(Math.min(1_500, left.size))
    expect(Math.max(...countByGroup(held))).toBeLessThanOrEqual(60)
    for (const { id, input } of more) expect(left.get(id)).toBe(input)
    const done = held.slice(0, 1_200)
    expect(new Set(await settleAll(store, done))).toEqual(new Set(['applied']))
    for (const { id } of done) left.delete(id)
    held = held.slice(1_200)
    if (left.size === held.length) break
  }
  await settleAll(store, held)
  const kind = (await store.counts()).kinds.find(({ name }) => name === 'mail')
  expect(kind?.states).toMatchObject({ pending: 0, running: 0, completed: 3_500 })
})

test('one that turns out to be more than its place says is looked at', async () => {
  const { store, key } = await openGoverned()
  await store.insert([newJob({ id: 'tagged', tags: ['blue'], traffic: inGroup('g') })])
  await admin(async (redis) => {
    const waits = await redis.hgetall(key('waits'))
    for (const [ticket, wait] of Object.entries(waits))
      if (ticket !== '') await redis.hset(key('waits'), ticket, wait.replace(/;1;([^;]*)$/, ';0;$1'))
  })
  const refusals = watchRefusals()
  const [job] = await claim(store, 1)
  expect(refusals).toEqual(['MRWHOLE'])
  expect(job).toMatchObject({ id: 'tagged', tags: ['blue'], group: 'g', input: 'null', attempt: 1 })
  expect(await settle(store, job as ClaimedJob, complete('"done"'))).toBe('applied')
  const { jobs } = await store.list({ filter: { state: 'completed', tag: 'blue' }, limit: 10 })
  expect(jobs.map(({ id, state }) => [id, state])).toEqual([['tagged', 'completed']])
})

test('a claim whose answer got lost is told again when it is repeated', async () => {
  const { store } = await openGoverned()
  await store.insert([1, 2, 3].map((i) => newJob({ id: `job-${i}`, input: `${i}`, traffic: inGroup('g') })))
  twice(scripts.write)
  const jobs = await claim(store, 2)
  expect(jobs.map(({ id, input, group }) => [id, input, group])).toEqual([
    ['job-1', '1', 'g'],
    ['job-2', '2', 'g'],
  ])
  expect(await settleAll(store, jobs)).toEqual(['applied', 'applied'])
  expect((await claim(store, 5)).map(({ id }) => id)).toEqual(['job-3'])
})

test('an end that came by another way meanwhile is not counted twice', async () => {
  const { store } = await openGoverned()
  const { store: other } = await openGoverned({ beside: store })
  await store.insert([
    newJob({ id: 'grouped', traffic: inGroup('g') }),
    newJob({ id: 'plain', queue: 'side' }),
  ])
  const jobs = [...(await claim(store, 1)), ...(await claim(store, 1, { queues: ['side'] }))]
  const plain = jobs[1] as ClaimedJob
  before(scripts.write, async () => {
    expect(await settle(other, plain, complete())).toBe('applied')
  })
  expect(await settleAll(store, jobs)).toEqual(['applied', 'lost'])
  const { kinds } = await store.counts()
  const completed = kinds.map(({ queue, states, totals }) => [queue, states.completed, totals.completed])
  expect(completed.sort()).toEqual([
    ['main', 1, 1],
    ['side', 1, 1],
  ])
  // A group that has no jobs is forgotten.
  expect((await store.gates({ of: 'group', owner: 'main', limit: 10 })).gates).toEqual([])
})

test('jobs of a claim that others have rescued are lost to it', async () => {
  const { store } = await openGoverned()
  await store.insert([newJob({ id: 'one', traffic: inGroup('g') })])
  const [job] = await claim(store, 1)
  expect(await settle(store, job as ClaimedJob, complete(), { worker: 'somebody else' })).toBe('lost')
  expect(await settleAll(store, [job as ClaimedJob, job as ClaimedJob])).toEqual(['applied', 'lost'])
  expect(await settle(store, job as ClaimedJob, complete())).toBe('lost')
})

test('what earlier runs left is told of one that is started by its place', async () => {
  const clock = new VirtualClock()
  const { store } = await openGoverned({ clock })
  await store.insert([newJob({ id: 'again', maxAttempts: 3, traffic: inGroup('g') })])
  const [job] = await claim(store, 1)
  expect(await settle(store, job as ClaimedJob, retryIn(1))).toBe('applied')
  clock.jump(2)
  await store.sweep({ limit: 100, keep: retention })
  const [again] = await claim(store, 1)
  expect(again).toMatchObject({ id: 'again', attempt: 2, retryDelay: 1, group: 'g' })
  expect(await settle(store, again as ClaimedJob, complete('1'))).toBe('applied')
  expect(await read(store, 'again')).toMatchObject({ state: 'completed', result: '1', attempt: 2 })
})

test('an id that exists is found, though it was taken for new', async () => {
  const { store } = await openGoverned()
  const job = newJob({ id: 'same', traffic: inGroup('g') })
  expect(await store.insert([job])).toEqual([{ status: 'inserted', state: 'pending' }])
  expect(await store.insert([newJob({ id: 'new', traffic: inGroup('g') }), job])).toEqual([
    { status: 'inserted', state: 'pending' },
    { status: 'duplicate', state: 'pending' },
  ])
  expect((await claim(store, 5)).map(({ id }) => id)).toEqual(['same', 'new'])
})

const prefixes = new WeakMap<Store, string>()

/** Its groups have limits, so none of their jobs takes the fast path. `beside`: another one with the same jobs. */
async function openGoverned({ beside, ...options }: { beside?: Store; clock?: VirtualClock } = {}) {
  const prefix = (beside && prefixes.get(beside)) ?? freshPrefix()
  const store = await openStore({ prefix, ...options })
  prefixes.set(store, prefix)
  if (beside === undefined) await choose(store, queueGate(), { each: { concurrency: 100 } })
  return { store, key: (name: string) => `{${prefix}:0}:${name}` }
}

async function settleAll(store: Store, jobs: readonly ClaimedJob[]) {
  const settlements = jobs.map(({ id, token }) => ({
    id,
    token,
    outcome: complete(),
    inserts: undefined,
    report: undefined,
  }))
  return (await store.exchange({ worker: 'worker', settlements, claim: undefined })).settled
}

function countByGroup(jobs: readonly ClaimedJob[]): number[] {
  const counts = new Map<string | undefined, number>()
  for (const { group } of jobs) counts.set(group, (counts.get(group) ?? 0) + 1)
  return [...counts.values()]
}

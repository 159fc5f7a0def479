/** Limits that are lent to the fast path: what starts and ends by itself is counted, and the desk sees to the rest. */
import { beforeEach, expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import { released } from '../../src/core/lifecycle.js'
import type { Store } from '../../src/core/store.js'
import type { DepthPolicy } from '../../src/core/traffic/depth.js'
import type { GateRef, TrafficChange } from '../../src/core/traffic/settings.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import {
  claim,
  die,
  idsOf,
  insertMany,
  insertOne,
  newJobs,
  settle,
  statesOf,
} from '../../src/testing/conformance/helpers.js'
import {
  choose,
  completeAll,
  gated,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  queueGate,
  rate,
} from '../../src/testing/conformance/traffic-helpers.js'
import { VirtualClock } from '../../src/testing/virtual-clock.js'
import { before, failing, watchScripts } from './intercept.js'
import { freshPrefix, openStore } from './redis.js'

let prefix = ''
beforeEach(() => {
  prefix = freshPrefix()
})

const limits: readonly [string, GateRef, TrafficChange][] = [
  ['concurrency of a definition', jobGate(), { limit: { concurrency: 20 } }],
  ['a rate of a definition', jobGate(), { limit: { rate: rate(1_000, 600_000) } }],
  [
    'a breaker',
    jobGate(),
    { breaker: { failureRate: 0.5, minimum: 5, window: 60_000, cooldown: 60_000, probes: 1 } },
  ],
  ['concurrency of a queue', queueGate(), { limit: { concurrency: 20 } }],
  ['a rate of a queue', queueGate(), { limit: { rate: rate(1_000, 600_000) } }],
]

test.each(limits)(
  '%s: jobs are added, start and end without the desk, in their order',
  async (_, gate, change) => {
    const store = await openLent(gate, change)
    const traffic = gate.of === 'job' ? gated : undefined
    const names = watchScripts()
    const first = await insertMany(store, 5, { traffic })
    const later = await insertMany(store, 5, { traffic })
    const jobs = [...(await claim(store, 3)), ...(await claim(store, 20))]
    expect(idsOf(jobs)).toEqual([...first, ...later])
    await completeAll(store, jobs)
    expect(new Set(names)).toEqual(new Set(['insert', 'exchange']))
    expect(await gateOf(store, gate)).toMatchObject({ running: 0 })
    expect(await statesOf(store)).toMatchObject({ pending: 0, running: 0 })
  },
)

test('no more start than were lent, whoever asks, and each end lets another one start', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 7 } })
  const other = await openStore({ prefix })
  await insertMany(store, 30, { traffic: gated })
  const jobs = [...(await claim(store, 4)), ...(await claim(other, 9)), ...(await claim(store, 9))]
  expect(jobs.length).toBe(7)
  await completeAll(other, jobs.splice(0, 2))
  const more = [...(await claim(store, 1)), ...(await claim(other, 9))]
  expect(more.length).toBe(2)
  expect(await gateOf(store, jobGate())).toMatchObject({ running: 7, room: 0 })
  await completeAll(store, [...jobs, ...more])
  for (let left = 21; left > 0; left -= 7) {
    const next = await claim(left > 10 ? store : other, 30)
    expect(next.length).toBe(7)
    await completeAll(store, next)
  }
})

test('a rate counts when jobs started, and not when the desk heard of it', async () => {
  const clock = new VirtualClock()
  const store = await openStore({ prefix, clock })
  await lend(store, jobGate(), { limit: { rate: rate(10, 1_000) } })
  clock.jump(1_000)
  await insertMany(store, 30, { traffic: gated })
  await completeAll(store, await claim(store, 6))
  clock.jump(600)
  await completeAll(store, await claim(store, 2))
  expect(await gateOf(store, jobGate())).toMatchObject({ room: 2 })
  clock.jump(500)
  expect(await gateOf(store, jobGate())).toMatchObject({ room: 8 })
  expect((await claim(store, 20)).length).toBe(8)
})

test('a limit that gets smaller counts what runs', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 10 } })
  await insertMany(store, 20, { traffic: gated })
  const jobs = await claim(store, 6)
  await choose(store, jobGate(), { limit: { concurrency: 4 } })
  expect(await claim(store, 9)).toEqual([])
  await completeAll(store, jobs.slice(0, 3))
  expect((await claim(store, 9)).length).toBe(1)
  await choose(store, jobGate(), { paused: true })
  await completeAll(store, jobs.slice(3))
  expect(await claim(store, 9)).toEqual([])
  await choose(store, jobGate(), { paused: false, limit: { concurrency: 9 } })
  expect((await claim(store, 20)).length).toBe(8)
})

test('a breaker opens by failures, whatever ended well by itself before', async () => {
  const policy = { failureRate: 0.5, minimum: 4, window: 60_000, cooldown: 60_000, probes: 1 }
  const store = await openLent(jobGate(), { breaker: policy })
  await insertMany(store, 20, { traffic: gated })
  const jobs = await claim(store, 10)
  // Two have ended well when it was lent.
  await completeAll(store, jobs.slice(0, 2))
  for (const [i, phase] of ['closed', 'closed', 'closed', 'open'].entries()) {
    expect(await settle(store, jobs[i + 2] as ClaimedJob, die())).toBe('applied')
    expect(await gateOf(store, jobGate())).toMatchObject({ breaker: phase })
  }
  expect(await claim(store, 9)).toEqual([])
})

test('a definition in several queues is counted in all of them', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 5 } })
  await insertMany(store, 9, { traffic: gated })
  expect((await claim(store, 2)).length).toBe(2)
  await insertMany(store, 9, { traffic: gated, queue: 'other' })
  expect((await claim(store, 2, { queues: ['other'] })).length).toBe(2)
  expect((await claim(store, 9, { queues: ['main', 'other'] })).length).toBe(1)
  expect((await claim(store, 9, { queues: ['other', 'main'] })).length).toBe(0)
})

test('lines take turns: another definition, a group or another lane is not overtaken', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 50 } })
  await choose(store, jobGate('scan'), { limit: { concurrency: 50 } })
  await choose(store, groupGate('g'), { limit: { concurrency: 1 } })
  await insertMany(store, 6, { traffic: gated })
  await insertMany(store, 6, { traffic: gated, name: 'scan' })
  await insertMany(store, 6, { traffic: inGroup('g'), name: 'free' })
  await insertMany(store, 6, { traffic: gated, lane: 0 })
  const jobs = await claim(store, 24)
  const counts = (fits: (job: ClaimedJob) => boolean) => jobs.filter(fits).length
  expect(counts(({ name, lane }) => name === 'greet' && lane !== 0)).toBe(6)
  expect(counts(({ name }) => name === 'scan')).toBe(6)
  expect(counts(({ group }) => group === 'g')).toBe(1)
  expect(counts(({ lane }) => lane === 0)).toBe(6)
  await completeAll(store, jobs)
  expect((await claim(store, 24)).length).toBe(1)
  expect(await gateOf(store, jobGate())).toMatchObject({ running: 0 })
})

test('a queue that is full refuses jobs, though some start and end by themselves', async () => {
  const depth: DepthPolicy = { max: 10, low: 9, lanes: [], overflow: 'reject', defer: 0, shedAt: [] }
  const store = await openLent(queueGate(), { limit: { concurrency: 5 }, depth })
  const rejected = async (count: number) =>
    (await store.insert(newJobs(count))).filter(({ status }) => status === 'full').length
  expect(await rejected(8)).toBe(0)
  await completeAll(store, await claim(store, 5))
  expect(await rejected(9)).toBe(2)
})

test('what was called in by a process that is gone is told by the next', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 7 } })
  const other = await openStore({ prefix })
  await insertMany(store, 20, { traffic: gated })
  const jobs = await claim(store, 3)
  failing(scripts.write, 1, new Error('gone'))
  await expect(choose(store, jobGate(), { limit: { concurrency: 9 } })).rejects.toThrow('gone')
  expect(await gateOf(other, jobGate())).toMatchObject({ running: 3, room: 4 })
  const more = await claim(other, 9)
  expect(more.length).toBe(4)
  await completeAll(other, [...jobs, ...more])
  expect((await claim(other, 1)).length).toBe(1)
  const names = watchScripts()
  expect((await claim(other, 3)).length).toBe(3)
  expect(names).toEqual(['exchange'])
})

test('jobs that others add, start and end while it is called in are counted once', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 7 } })
  const other = await openStore({ prefix })
  await insertMany(store, 20, { traffic: gated })
  const jobs = [...(await claim(store, 3))]
  before(scripts.write, async () => {
    await completeAll(other, jobs.slice(0, 1))
    jobs.push(...(await claim(other, 2)))
    await insertMany(other, 3, { traffic: gated })
  })
  await choose(store, jobGate(), { limit: { concurrency: 8 } })
  expect(await gateOf(store, jobGate())).toMatchObject({ running: 4, room: 4 })
  const more = await claim(other, 9)
  expect(more.length).toBe(4)
  await completeAll(store, [...jobs.slice(1), ...more])
  expect(await statesOf(store)).toMatchObject({ pending: 14, running: 0 })
})

test('looking at gates leaves a loan open', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 7 } })
  await insertOne(store, { traffic: gated })
  await completeAll(store, await claim(store, 5))
  expect(await gateOf(store, jobGate())).toMatchObject({ running: 0, room: 7 })
  const names = watchScripts()
  await insertOne(store, { traffic: gated })
  expect((await claim(store, 5)).length).toBe(1)
  expect(names).toEqual(['insert', 'exchange'])
})

test('jobs of a definition with limits have them still when they come back', async () => {
  const store = await openLent(jobGate(), { limit: { concurrency: 50 } })
  const id = await insertOne(store, { traffic: gated })
  const [job] = await claim(store, 1)
  expect(job?.id).toBe(id)
  await choose(store, jobGate(), { limit: null })
  await settle(store, job as ClaimedJob, released())
  await insertOne(store, { traffic: gated })
  const names = watchScripts()
  expect(await claim(store, 9)).toHaveLength(2)
  // Both are in the line of their definition: lines would take turns at the desk.
  expect(names).toEqual(['exchange'])
})

/** A store in which the limit is lent already. */
async function openLent(gate: GateRef, change: TrafficChange): Promise<Store> {
  const store = await openStore({ prefix })
  await lend(store, gate, change)
  return store
}

async function lend(store: Store, gate: GateRef, change: TrafficChange): Promise<void> {
  await choose(store, gate, change)
  await insertMany(store, 2, { traffic: gate.of === 'job' ? gated : undefined })
  await completeAll(store, await claim(store, 1))
  await completeAll(store, await claim(store, 1))
}

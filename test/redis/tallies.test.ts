/** Groups that are nothing but tallies: their jobs are added, start and end without the desk, and whoever looks finds them counted. */
import { beforeEach, expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import {
  claim,
  complete,
  insertMany,
  insertOne,
  retryIn,
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
} from '../../src/testing/conformance/traffic-helpers.js'
import { newJob } from '../new-job.js'
import { before, twice, watchScripts } from './intercept.js'
import { freshPrefix, openStore } from './redis.js'

let prefix = ''
beforeEach(() => {
  prefix = freshPrefix()
})

test('jobs of groups need no desk once their line is there, and groups take turns', async () => {
  const store = await openWithLine()
  const names = watchScripts()
  await insertMany(store, 6, { traffic: inGroup('many') })
  await insertMany(store, 2, { traffic: inGroup('few') })
  await insertOne(store, { traffic: inGroup('one') })
  const jobs = await claim(store, 5)
  expect(groupsOf(jobs)).toEqual({ many: 2, few: 2, one: 1 })
  expect(await gateOf(store, groupGate('many'))).toMatchObject({ pending: 4, running: 2 })
  await completeAll(store, jobs)
  const more = await claim(store, 9)
  expect(groupsOf(more)).toEqual({ many: 4 })
  expect(names.filter((name) => name === 'insert' || name === 'exchange').length).toBe(6)
  expect(names).not.toContain('write')
})

test('a group is forgotten with its last job, and is the same when it comes back', async () => {
  const store = await openWithLine()
  for (let round = 0; round < 3; round++) {
    await insertMany(store, 3, { traffic: inGroup('g') })
    expect(await gatesOf(store)).toMatchObject([{ ref: { name: 'g' }, pending: 3, running: 0 }])
    await completeAll(store, await claim(store, 5))
    expect(await gatesOf(store)).toEqual([])
  }
})

test('limits that a group gets count what it had as a tally, and it is one again without them', async () => {
  const store = await openWithLine()
  await insertMany(store, 9, { traffic: inGroup('g') })
  const jobs = [...(await claim(store, 3))]
  await choose(store, groupGate('g'), { limit: { concurrency: 4 } })
  jobs.push(...(await claim(store, 9)))
  expect(jobs.length).toBe(4)
  await completeAll(store, jobs.splice(0, 2))
  await choose(store, groupGate('g'), { limit: { concurrency: null } })
  await completeAll(store, [...jobs, ...(await claim(store, 9))])
  expect(await gatesOf(store)).toEqual([])
  const names = watchScripts()
  await insertOne(store, { traffic: inGroup('g') })
  await completeAll(store, await claim(store, 1))
  expect(new Set(names)).toEqual(new Set(['insert', 'exchange']))
})

test('limits that all groups get are kept by those that are tallies', async () => {
  const store = await openWithLine()
  await insertMany(store, 9, { traffic: inGroup('a') })
  await insertMany(store, 9, { traffic: inGroup('b') })
  const jobs = [...(await claim(store, 6))]
  await choose(store, queueGate(), { each: { concurrency: 4 } })
  jobs.push(...(await claim(store, 9)))
  expect(groupsOf(jobs)).toEqual({ a: 4, b: 4 })
  await completeAll(store, jobs)
  expect(groupsOf(await claim(store, 9))).toEqual({ a: 4, b: 4 })
})

test('a definition with limits has groups too', async () => {
  const store = await openStore({ prefix })
  const traffic = { ...inGroup('g'), gated: true }
  await choose(store, jobGate(), { limit: { concurrency: 50 } })
  await insertOne(store, { traffic })
  await completeAll(store, await claim(store, 1))
  const names = watchScripts()
  await insertMany(store, 8, { traffic })
  await insertMany(store, 2, { traffic: gated })
  const jobs = await claim(store, 5)
  expect(groupsOf(jobs)).toEqual({ g: 3, none: 2 })
  await completeAll(store, jobs)
  expect(new Set(names)).toEqual(new Set(['insert', 'exchange']))
  expect(await gateOf(store, jobGate())).toMatchObject({ running: 0 })
  expect(await gateOf(store, groupGate('g'))).toMatchObject({ running: 0, pending: 5 })
})

test('an insert or an exchange whose answer got lost counts once', async () => {
  const store = await openWithLine()
  twice(scripts.insert)
  await insertMany(store, 3, { traffic: inGroup('g') })
  expect(await gateOf(store, groupGate('g'))).toMatchObject({ pending: 3, running: 0 })
  twice(scripts.exchange)
  const jobs = await claim(store, 2)
  expect(jobs.map(({ group }) => group)).toEqual(['g', 'g'])
  expect(await gateOf(store, groupGate('g'))).toMatchObject({ pending: 1, running: 2 })
  await store.exchange({
    worker: 'worker',
    settlements: jobs.map(({ id, token }) => ({ id, token, outcome: complete(), inserts: undefined })),
    claim: undefined,
  })
  expect(await gateOf(store, groupGate('g'))).toMatchObject({ pending: 1, running: 0 })
  expect(await statesOf(store)).toMatchObject({ pending: 1, running: 0, completed: 3 })
})

test('what others do to a group while the desk counts it is counted too', async () => {
  const store = await openWithLine()
  const other = await openStore({ prefix })
  await insertMany(store, 6, { traffic: inGroup('g') })
  const [failing, ...jobs] = await claim(store, 3)
  before(scripts.write, async () => {
    await completeAll(other, jobs)
    await insertMany(other, 2, { traffic: inGroup('g') })
    await insertMany(other, 2, { traffic: inGroup('new') })
  })
  expect(await settle(store, failing as ClaimedJob, retryIn(1_000))).toBe('applied')
  expect(await gateOf(store, groupGate('g'))).toMatchObject({ pending: 5, running: 0 })
  expect(await gateOf(store, groupGate('new'))).toMatchObject({ pending: 2, running: 0 })
  expect(groupsOf(await claim(store, 9))).toEqual({ g: 5, new: 2 })
})

test('thousands of groups at once', async () => {
  const store = await openWithLine()
  const jobs = Array.from({ length: 9_000 }, (_, i) => newJob({ id: `many-${i}`, traffic: inGroup(`g${i}`) }))
  const names = watchScripts()
  await store.insert(jobs)
  const claimed = await claim(store, 9_000)
  expect(new Set(claimed.map(({ group }) => group)).size).toBe(9_000)
  await completeAll(store, claimed)
  expect(await gatesOf(store)).toEqual([])
  expect(names).not.toContain('write')
})

function groupsOf(jobs: readonly ClaimedJob[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { group = 'none' } of jobs) counts[group] = (counts[group] ?? 0) + 1
  return counts
}

async function gatesOf(store: Store) {
  return (await store.gates({ of: 'group', owner: 'main', limit: 10 })).gates
}

/** In which jobs of groups have a line already. */
async function openWithLine(): Promise<Store> {
  const store = await openStore({ prefix })
  await insertOne(store, { traffic: inGroup('first') })
  await completeAll(store, await claim(store, 1))
  return store
}

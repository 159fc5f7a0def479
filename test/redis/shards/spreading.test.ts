/** Jobs that have to do with nothing but themselves are on all shards, and are found on each. */
import type { ClaimedJob, Store } from 'millrace'
import { expect, onTestFinished, test } from 'vitest'
import type { ExchangeResult } from '../../../src/core/store.js'
import type { Dedupe } from '../../../src/core/traffic/dedupe.js'
import { scripts } from '../../../src/stores/redis/scripts.js'
import { shardOf } from '../../../src/stores/redis/shards/placing.js'
import {
  claim,
  claimRequest,
  complete,
  die,
  failureOf,
  idsOf,
  insertMany,
  listAll,
  newJobs,
  operateAll,
  rescue,
  retryIn,
  settle,
  sorted,
  stateOf,
  sweep,
} from '../../../src/testing/conformance/helpers.js'
import { failing, watchScripts } from '../intercept.js'
import { codeOf } from '../redis.js'
import { threeShards } from './shards.js'

test('each shard has some, and one claim gets all of them once', async () => {
  const { store, parts } = await threeShards()
  const ids = await insertMany(store, 60)
  for (const part of parts) expect(await pendingIn(part)).toBeGreaterThan(5)
  expect(await pendingIn(store)).toBe(60)
  const jobs = await claim(store, 100)
  expect(sorted(idsOf(jobs))).toEqual(sorted(ids))
  const settlements = jobs.map(({ id, token }) => ({ id, token, outcome: complete(), inserts: undefined }))
  const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
  expect(new Set(settled)).toEqual(new Set(['applied']))
  expect((await store.counts()).kinds).toMatchObject([{ states: { pending: 0, running: 0, completed: 60 } }])
})

test('no more are claimed than there is room for, of each lane', async () => {
  const { store } = await threeShards()
  await insertMany(store, 30)
  await insertMany(store, 30, { lane: 0 })
  const request = { ...claimRequest(0), room: { shared: 7, own: [5, 0, 0, 0] } }
  const picks = request.picks.map((pick) => ({ ...pick, take: 12 }))
  const { claimed } = await store.exchange({
    worker: 'worker',
    settlements: [],
    claim: { ...request, picks },
  })
  expect(claimed).toHaveLength(12)
  expect(claimed.filter(({ lane }) => lane === 0).length).toBeGreaterThanOrEqual(5)
})

test('a claim that is asked for again tells of the same jobs', async () => {
  const { store } = await threeShards()
  await insertMany(store, 30)
  const request = { worker: 'worker', settlements: [], claim: claimRequest(20) }
  const { claimed } = await store.exchange(request)
  expect(sorted(idsOf((await store.exchange(request)).claimed))).toEqual(sorted(idsOf(claimed)))
})

test('a claim that failed at one shard tells of the same jobs when it is asked for again, and of the rest', async () => {
  const { store } = await threeShards()
  const ids = await insertMany(store, 30)
  const away = new Error('away')
  failing(scripts.exchange, 2, away)
  const request = { worker: 'worker', settlements: [], claim: claimRequest(100) }
  await expect(store.exchange(request)).rejects.toBe(away)
  expect(await pendingIn(store)).toBeLessThan(30)
  const { claimed } = await store.exchange(request)
  expect(sorted(idsOf(claimed))).toEqual(sorted(ids))
  for (const job of claimed) expect(await settle(store, job, complete())).toBe('applied')
})

test('a claim goes out with the jobs that announced it, in the same script', async () => {
  const { store } = await threeShards()
  const names = watchScripts()
  const sent: string[][] = []
  let claiming: Promise<ExchangeResult> | undefined
  const stop = store.subscribe(({ type }) => {
    if (type !== 'arriving') return
    claiming = store.exchange({ worker: 'worker', settlements: [], claim: claimRequest(1) })
    sent.push([...names])
  })
  onTestFinished(stop)
  const ids = await insertMany(store, 1)
  expect(sent).toEqual([[]])
  expect(names).toEqual(['insert'])
  expect(idsOf((await claiming)?.claimed ?? [])).toEqual(ids)
})

test('an insert that is done again finds what it has inserted', async () => {
  const { store, second } = await threeShards()
  const jobs = newJobs(30)
  await store.insert(jobs)
  const again = await (await second()).insert(jobs)
  expect(again.map(({ status }) => status)).toEqual(jobs.map(() => 'duplicate'))
  expect(await pendingIn(store)).toBe(30)
})

test('what is related to something, or has an id that others may know, is at home', async () => {
  const { store, parts } = await threeShards()
  const dedupe = (key: string): Dedupe => ({ key, mode: 'until-done', window: 0, most: 0 })
  await store.insert(newJobs(30).map((job) => ({ ...job, dedupe: dedupe(job.id) })))
  expect(await pendingIn(parts[0])).toBe(30)
  const known = newJobs(30)
  await store.insert(known.map((job) => ({ ...job, fresh: false })))
  expect(await pendingIn(parts[0])).toBe(60)
  expect((await store.get(idsOf(known))).every((record) => record?.state === 'pending')).toBe(true)
})

test('a token of one shard opens nothing in another one', async () => {
  const { store } = await threeShards()
  await insertMany(store, 30)
  const [job] = (await claim(store, 30)) as [ClaimedJob]
  const shard = Number(job.token.split('!')[0])
  for (const other of ['', `${(shard + 1) % 3}!`, '3!', `0${shard}!`, `x${shard}!`, `${shard}!!`]) {
    const token = `${other}${job.token.split('!')[1]}`
    expect(await settle(store, { id: job.id, token }, complete()), token).toBe('lost')
  }
  expect(await settle(store, job, complete())).toBe('applied')
})

test('finished jobs are listed newest first, page by page', async () => {
  const { store, clock } = await threeShards()
  await insertMany(store, 30)
  const finished: string[] = []
  for (const job of await claim(store, 30)) {
    await clock.advance(1)
    await settle(store, job, complete())
    finished.unshift(job.id)
  }
  expect(idsOf(await listAll(store, { state: 'completed' }, 7))).toEqual(finished)
})

test('a cursor of something else is refused', async () => {
  const { store } = await threeShards()
  const query = { filter: { state: 'dead' }, limit: 10 } as const
  for (const cursor of ['', 'x', '[]', '[null,null,null]', '["a","b"]', '9:', 'dead:1:2:3']) {
    expect(await codeOf(store.list({ ...query, cursor })), cursor).toBe('INVALID_OPTION')
    expect(await codeOf(store.operate({ ...query, cursor }, replay)), cursor).toBe('INVALID_OPTION')
  }
})

test('those that wait are listed each once', async () => {
  const { store } = await threeShards()
  const ids = await insertMany(store, 30)
  expect(sorted(idsOf(await listAll(store, { state: 'pending' }, 7)))).toEqual(sorted(ids))
})

test('a queue that is paused is so on all shards', async () => {
  const { store, second } = await threeShards()
  await insertMany(store, 30)
  await store.configure({ queue: 'main', paused: true })
  expect(await claim(await second(), 30)).toHaveLength(0)
  expect((await store.counts()).paused).toEqual(['main'])
  await store.configure({ queue: 'main', paused: false })
  expect(await claim(await second(), 30)).toHaveLength(30)
})

test('dead jobs are counted by cause, and replayed by filter and by id, wherever they are', async () => {
  const { store } = await threeShards()
  await insertMany(store, 30)
  for (const [i, job] of (await claim(store, 30)).entries())
    await settle(store, job, die(failureOf('greet', i < 10 ? 'ten' : 'twenty')))
  const causes = await store.causes()
  expect(causes.map(({ count }) => count).sort()).toEqual([10, 20])
  const cause = causes.find(({ count }) => count === 10)?.cause as string
  const replayed = await operateAll(store, { state: 'dead', cause }, replay, 4)
  expect(replayed.affected).toHaveLength(10)
  const dead = await listAll(store, { state: 'dead' })
  const byIds = await store.operate({ ids: [...idsOf(dead), 'unknown'] }, replay)
  expect(byIds.affected).toHaveLength(20)
  expect(byIds.missing).toEqual(['unknown'])
  expect(await claim(store, 50)).toHaveLength(30)
})

test('one that runs is asked to stop', async () => {
  const { store } = await threeShards()
  const ids = await insertMany(store, 10)
  const jobs = await claim(store, 10)
  const held = jobs.map(({ id, token }) => ({ id, token, progress: undefined, logs: undefined }))
  const report = await store.operate({ ids }, { do: 'cancel', reason: 'too late', retain: 0 })
  expect(sorted(report.asked)).toEqual(sorted(ids))
  const { cancels, lost } = await store.extend({ worker: 'worker', lease: 10_000, held })
  expect(sorted(idsOf(cancels))).toEqual(sorted(ids))
  expect(lost).toEqual([])
})

test('what a lost worker had is rescued, and a worker that is heard of keeps all of it', async () => {
  const { store, clock } = await threeShards()
  await insertMany(store, 30)
  await claim(store, 30)
  await clock.advance(9_000)
  await store.extend({ worker: 'worker', lease: 10_000, held: [] })
  await clock.advance(9_000)
  expect((await sweep(store)).orphans).toHaveLength(0)
  await clock.advance(9_000)
  const { orphans } = await sweep(store)
  expect(orphans).toHaveLength(30)
  for (const orphan of orphans) expect(await rescue(store, orphan)).toBe('applied')
  const jobs = await claim(store, 30)
  expect(jobs).toHaveLength(30)
  expect(jobs.every(({ crashes }) => crashes === 1)).toBe(true)
})

test('what is due is promoted on every shard, and what was retained is pruned', async () => {
  const { store, clock } = await threeShards()
  await insertMany(store, 30, { delay: 1_000 })
  await clock.advance(1_000)
  expect((await sweep(store)).promoted).toBe(30)
  for (const job of await claim(store, 30)) await settle(store, job, complete())
  await sweep(store, { keep: { completed: 12, dead: 0 } })
  const kept = await listAll(store, { state: 'completed' })
  expect(kept.length).toBeLessThanOrEqual(12)
  expect(kept.length).toBeGreaterThan(8)
})

test('a retry waits where its job is', async () => {
  const { store, clock } = await threeShards()
  const ids = await insertMany(store, 10)
  for (const job of await claim(store, 10)) await settle(store, job, retryIn(500))
  await clock.advance(500)
  await sweep(store)
  for (const id of ids) expect(await stateOf(store, id)).toBe('pending')
  expect(await claim(store, 10)).toHaveLength(10)
})

test('ids that follow each other are spread evenly', () => {
  const counts = [0, 0, 0]
  for (const { id } of newJobs(3_000)) counts[shardOf(id, 3)] = (counts[shardOf(id, 3)] as number) + 1
  for (const count of counts) expect(count).toBeGreaterThan(800)
})

const replay = { do: 'retry', delay: 0, spacing: 0, change: {} } as const

async function pendingIn(store: Pick<Store, 'counts'>): Promise<number> {
  return (await store.counts()).kinds.reduce((sum, { states }) => sum + states.pending, 0)
}

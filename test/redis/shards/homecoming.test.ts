/** A job of an annex that gets to do with others comes home, whoever fails on the way. */
import type { ClaimedJob, NewJob } from 'millrace'
import { expect, test } from 'vitest'
import { released } from '../../../src/core/lifecycle.js'
import type { ShardStore } from '../../../src/stores/redis/shard-store.js'
import { Homecoming } from '../../../src/stores/redis/shards/homecoming.js'
import {
  claim,
  complete,
  insertMany,
  newJob,
  newJobs,
  retryIn,
  settle,
  stateOf,
  sweep,
} from '../../../src/testing/conformance/helpers.js'
import { completeAll } from '../../../src/testing/conformance/traffic-helpers.js'
import { codeOf } from '../redis.js'
import { type Sharded, threeShards } from './shards.js'

/** Of one that runs on the second shard, as that knows it. */
async function away(sharded: Sharded): Promise<ClaimedJob> {
  const [, annex] = sharded.parts
  await annex.insert([newJob({ id: 'traveller' })])
  const [job] = (await claim(annex)) as [ClaimedJob]
  await annex.extend({ worker: 'worker', lease: 10_000, held: [{ ...job, progress: '50', logs: [line] }] })
  return job
}

const line = { at: 1, level: 'info', text: 'on its way' } as const

async function isWhole({ parts: [home, annex] }: Sharded): Promise<void> {
  expect(await annex.get(['traveller'])).toEqual([undefined])
  expect(await home.get(['traveller'])).toMatchObject([{ state: 'running', progress: '50', attempt: 1 }])
  expect((await home.trail('traveller'))?.logs).toEqual([line])
}

/** `home` with one call that fails, before or after it is done. */
function failing(store: ShardStore, verb: 'work' | 'forgetMoved', when: 'before' | 'after'): ShardStore {
  let isToFail = true
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        const fails = name === verb && isToFail
        if (fails) isToFail = false
        if (fails && when === 'before') throw new Error('the process ends')
        const result = await value.apply(target, args)
        if (fails) throw new Error('the process ends')
        return result
      }
    },
  })
}

test('it is what it was, under a token of home', async () => {
  const sharded = await threeShards()
  const [home, annex] = sharded.parts
  const job = await away(sharded)
  const tokens = await new Homecoming(home).held(annex, 'worker', [job])
  await isWhole(sharded)
  expect(await settle(annex, job, complete())).toBe('lost')
  expect(await settle(home, { ...job, token: tokens.get(job.token) as string }, complete('1'))).toBe(
    'applied',
  )
  expect(await home.get(['traveller'])).toMatchObject([{ state: 'completed', result: '1' }])
})

for (const when of ['before', 'after'] as const) {
  test(`its worker tries again: home failed ${when} it took it in`, async () => {
    const sharded = await threeShards()
    const [home, annex] = sharded.parts
    const job = await away(sharded)
    const homecoming = new Homecoming(failing(home, 'work', when))
    await expect(homecoming.held(annex, 'worker', [job])).rejects.toThrow('the process ends')
    const tokens = await homecoming.held(annex, 'worker', [job])
    await isWhole(sharded)
    expect(await settle(home, { ...job, token: tokens.get(job.token) as string }, complete())).toBe('applied')
  })

  test(`a sweep goes on: the process ended ${when} home took it in`, async () => {
    const sharded = await threeShards()
    const [home, annex] = sharded.parts
    const job = await away(sharded)
    const homecoming = new Homecoming(failing(home, 'work', when))
    await expect(homecoming.held(annex, 'worker', [job])).rejects.toThrow('the process ends')
    await sweep(sharded.store)
    const [found] = await home.get(['traveller'])
    expect(found?.state).toBe(when === 'before' ? undefined : 'running')
    expect(await annex.ask('someFields', 'parcels', 10), 'it may be about to try again').toHaveLength(1)
    await sharded.clock.advance(5_000)
    await sweep(sharded.store)
    await isWhole(sharded)
    expect(await annex.ask('someFields', 'parcels', 10)).toEqual([])
  })

  test(`it is forgotten once: the process ended ${when} the annex did so`, async () => {
    const sharded = await threeShards()
    const [home, annex] = sharded.parts
    const job = await away(sharded)
    const tokens = await new Homecoming(home).held(failing(annex, 'forgetMoved', when), 'worker', [job])
    const token = tokens.get(job.token) as string
    expect(await settle(home, { ...job, token }, complete(undefined, { completed: 0, dead: 0 }))).toBe(
      'applied',
    )
    await sharded.clock.advance(5_000)
    await sweep(sharded.store)
    expect(await sharded.store.get(['traveller']), 'it has ended and comes to life no more').toEqual([
      undefined,
    ])
    expect(await annex.ask('someFields', 'parcels', 10)).toEqual([])
  })
}

test('one that was on its way for too long is sent again', async () => {
  const sharded = await threeShards()
  const [home, annex] = sharded.parts
  const job = await away(sharded)
  const slow = new Proxy(home, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as (...args: unknown[]) => unknown
      if (name !== 'work') return value
      return async (...args: unknown[]) => {
        await sharded.clock.advance(60_001)
        return value.apply(target, args)
      }
    },
  })
  expect(await codeOf(new Homecoming(slow).held(annex, 'worker', [job]))).toBe('STORE_BUSY')
  expect(await home.get(['traveller'])).toEqual([undefined])
  await sweep(sharded.store)
  expect(await stateOf(home, 'traveller')).toBe('running')
})

test('its worker, whose first try failed, finds what another process brought home', async () => {
  const sharded = await threeShards()
  const [home, annex] = sharded.parts
  const job = await away(sharded)
  const homecoming = new Homecoming(failing(home, 'work', 'before'))
  await expect(homecoming.held(annex, 'worker', [job])).rejects.toThrow('the process ends')
  await sharded.clock.advance(5_000)
  await sweep(sharded.store)
  const tokens = await homecoming.held(annex, 'worker', [job])
  expect(await settle(home, { ...job, token: tokens.get(job.token) as string }, complete())).toBe('applied')
})

test('whoever looks for one on its way finds it at home', async () => {
  const sharded = await threeShards()
  const { store, parts } = sharded
  const jobs = newJobs(30)
  await store.insert(jobs)
  const claimed = await claim(store, 30)
  const homecoming = new Homecoming(failing(parts[0], 'work', 'before'))
  const { id, token } = claimed.find((job) => job.token.startsWith('1!')) as ClaimedJob
  await homecoming.held(parts[1], 'worker', [{ id, token: token.slice(2) }]).catch(() => {})
  expect(await parts[1].get([id])).toEqual([undefined])
  expect(await store.get([id])).toMatchObject([{ id, state: 'running' }])
  expect((await store.operate({ ids: [id] }, { do: 'cancel', reason: 'late', retain: 0 })).asked).toEqual([
    id,
  ])
})

test('what is written of a job while it comes home is not lost, and nobody takes it for a stray', async () => {
  const { store, clock } = await threeShards()
  await insertMany(store, 30)
  const jobs = await claim(store, 30)
  await clock.advance(10_001)
  const beat = (job: ClaimedJob) =>
    store.extend({
      worker: 'worker',
      lease: 10_000,
      held: [{ ...job, progress: '1', logs: undefined }],
      inventory: { leaving: jobs.filter(({ id }) => id !== job.id), claiming: [] },
    })
  const moves = jobs.map((job) =>
    store.extend({
      worker: 'worker',
      lease: 10_000,
      held: [{ ...job, progress: undefined, logs: undefined, inserts: [child()] }],
    }),
  )
  const beats = await Promise.all([...jobs, ...jobs, ...jobs].map(beat))
  for (const { lost } of [...beats, ...(await Promise.all(moves))]) expect(lost).toEqual([])
  const known = new Set(jobs.map(({ token }) => token))
  for (const { strays } of beats) for (const { token } of strays) expect(known).toContain(token)
  for (const job of jobs) expect(await settle(store, job, complete())).toBe('applied')
})

test('a cancel by filter meets jobs that come home between its pages', async () => {
  const { store } = await threeShards()
  await insertMany(store, 30)
  const jobs = await claim(store, 30)
  const asked = new Set<string>()
  let cursor: string | undefined
  do {
    const command = { do: 'cancel', reason: 'all', retain: 0 } as const
    const report = await store.operate({ filter: { state: 'running' }, limit: 100, cursor }, command)
    for (const id of report.asked) asked.add(id)
    cursor = report.cursor
    const held = jobs.map((job) => ({ ...job, progress: undefined, logs: undefined, inserts: [child()] }))
    await store.extend({ worker: 'worker', lease: 10_000, held })
  } while (cursor !== undefined)
  expect(asked.size).toBe(30)
})

test('receipts are forgotten when no parcel is left', async () => {
  const sharded = await threeShards()
  const [home, annex] = sharded.parts
  const job = await away(sharded)
  await new Homecoming(home).held(failing(annex, 'forgetMoved', 'before'), 'worker', [job])
  await sharded.clock.advance(2 * 3_600_000)
  const homecoming = new Homecoming(home)
  await homecoming.forgetReceipts(sharded.parts)
  expect(await home.ask('overdue', 'receipts', 10)).toEqual(['traveller'])
  await annex.forgetMoved(['traveller'])
  await homecoming.forgetReceipts(sharded.parts)
  expect(await home.ask('overdue', 'receipts', 10)).toEqual([])
})

test('what a worker does not hold stays', async () => {
  const sharded = await threeShards()
  const [home, annex] = sharded.parts
  const job = await away(sharded)
  const homecoming = new Homecoming(home)
  expect(await homecoming.held(annex, 'another', [job])).toEqual(new Map())
  expect(await homecoming.held(annex, 'worker', [{ ...job, token: `${job.token}x` }])).toEqual(new Map())
  expect(await homecoming.held(annex, 'worker', [job], true), 'nobody rescues what is held').toEqual(
    new Map(),
  )
  expect(await stateOf(annex, 'traveller')).toBe('running')
})

test('an insert that is done again finds the job at home', async () => {
  const { store } = await threeShards()
  const jobs = newJobs(30)
  await store.insert(jobs)
  for (const job of await claim(store, 30)) await settle(store, job, complete(), { inserts: [child()] })
  const again = await store.insert(jobs)
  expect(again).toEqual(jobs.map(() => ({ status: 'duplicate', state: 'completed' })))
  const tagged = await store.insert(jobs.map((job) => ({ ...job, tags: ['again'] })))
  expect(tagged).toEqual(again)
})

test('an insert that is done again after a limit was set finds the job on its annex', async () => {
  const { store } = await threeShards()
  const jobs = newJobs(30)
  await store.insert(jobs)
  expect(await claim(store, 30)).toHaveLength(30)
  await store.configure({
    gate: { of: 'queue', name: 'main' },
    change: { limit: { concurrency: 100 } },
    declared: false,
  })
  expect(await store.insert(jobs)).toEqual(jobs.map(() => ({ status: 'duplicate', state: 'running' })))
})

test('jobs that a handler adds come with its end, or not at all', async () => {
  const { store, parts } = await threeShards()
  await insertMany(store, 30)
  for (const job of await claim(store, 30)) {
    expect(await settle(store, { ...job, token: `${job.token}x` }, complete(), { inserts: [child()] })).toBe(
      'lost',
    )
    expect(await settle(store, job, complete(), { inserts: [child()] })).toBe('applied')
  }
  const { kinds } = await parts[0].counts()
  expect(kinds.find(({ name }) => name === 'child')?.states.pending).toBe(30)
})

test('a process that has not heard of a limit is stopped by it on an annex too', async () => {
  const { store, second } = await threeShards()
  const [quick, late] = [await second(), await second()]
  await insertMany(quick, 60)
  await completeAll(quick, await claim(quick, 1))
  await store.configure({
    gate: { of: 'queue', name: 'main' },
    change: { limit: { concurrency: 5 } },
    declared: false,
  })
  // At the desks of the annexes, as it has not heard; then it has.
  for (let n = 0; n < 12; n++) await completeAll(quick, await claim(quick, 2))
  let started = 0
  for (let n = 0; n < 10; n++) {
    await insertMany(late, 6)
    started += (await claim(late, 4)).length
  }
  expect(started).toBe(5)
})

test('a limit that is set while jobs wait holds for all of them, and all of them run', async () => {
  const { store, clock, second } = await threeShards()
  await insertMany(store, 30)
  const other = await second()
  await store.configure({
    gate: { of: 'queue', name: 'main' },
    change: { limit: { concurrency: 4 } },
    declared: false,
  })
  let done = 0
  for (let turn = 0; turn < 20 && done < 40; turn++) {
    await sweep(turn % 2 === 0 ? store : other)
    const jobs = [...(await claim(other, 10)), ...(await claim(store, 10))]
    expect(jobs.length).toBeLessThanOrEqual(4)
    for (const job of jobs) await settle(store, job, complete())
    done += jobs.length
    await clock.advance(1_000)
    if (turn === 3) await insertMany(other, 10)
  }
  expect(done).toBe(40)
})

test('what stands for jobs that came home is forgotten an hour later', async () => {
  const { store, clock, parts } = await threeShards()
  await insertMany(store, 60)
  await store.configure({
    gate: { of: 'queue', name: 'main' },
    change: { limit: { concurrency: 4 } },
    declared: false,
  })
  for (let n = 0; n < 5; n++) await sweep(store)
  const stubs = async () => {
    const asked = parts.map((part) => part.ask<string[]>('overdue', 'stubs', 100))
    return (await Promise.all(asked)).flat().length
  }
  await clock.advance(3_700_000)
  expect(await stubs()).toBeGreaterThan(0)
  await sweep(store)
  expect(await stubs()).toBe(0)
})

test('jobs that ran on an annex when a limit was set come home when they wait again', async () => {
  const { store, clock, parts } = await threeShards()
  const ids = await insertMany(store, 30)
  await insertMany(store, 30, { delay: 2_000 })
  const jobs = await claim(store, 30)
  await store.configure({
    gate: { of: 'job', name: 'greet' },
    change: { limit: { concurrency: 40 } },
    declared: false,
  })
  for (const [i, job] of jobs.entries()) await settle(store, job, i % 2 === 0 ? retryIn(1_000) : released())
  for (const ms of [0, 1_000, 1_000]) {
    await clock.advance(ms)
    await sweep(store)
  }
  const { kinds } = await parts[0].counts()
  expect(kinds.find(({ name }) => name === 'greet')?.states.pending).toBe(60)
  const again = await claim(store, 60)
  expect(again).toHaveLength(40)
  for (const job of again) expect(await settle(store, job, complete())).toBe('applied')
  for (const job of await claim(store, 60)) expect(await settle(store, job, complete())).toBe('applied')
  for (const id of ids) expect(await stateOf(store, id)).toBe('completed')
})

function child(): NewJob {
  return newJob({ name: 'child', queue: 'children' })
}

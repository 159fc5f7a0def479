/** Jobs that are a worker's own from the beginning: it waited for some when they were added, here or in another process. */
import { expect, test, vi } from 'vitest'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { ExchangeResult, Store } from '../../src/core/store.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import {
  claim,
  claimRequest,
  complete,
  idsOf,
  insertMany,
  insertOne,
  newJob,
  nextSignal,
  retention,
  settle,
  stateOf,
  statesOf,
} from '../../src/testing/conformance/helpers.js'
import {
  choose,
  completeAll,
  gated,
  gateOf,
  jobGate,
  queueGate,
} from '../../src/testing/conformance/traffic-helpers.js'
import { before, failing, twice, watchScripts } from './intercept.js'
import { freshPrefix, openStore } from './redis.js'
import { spread } from './shards/spread.js'

test('a job is given to a worker of another process, which need not ask for it', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there)
  const names = watchScripts()
  const taking = taken(there)
  const id = await insertOne(here)
  const { claimed } = await taking
  expect(claimed).toMatchObject([{ id, attempt: 1, crashes: 0, input: newJob().input, lane: newJob().lane }])
  expect(names).not.toContain('exchange')
  expect(await stateOf(here, id)).toBe('running')
  expect(await settle(there, claimed[0] as ClaimedJob, complete('"done"'))).toBe('applied')
  expect(await stateOf(here, id)).toBe('completed')
})

test('a claim is given jobs once; then its process is told of them', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there, 2)
  const taking = taken(there)
  const first = await insertOne(here)
  expect(idsOf((await taking).claimed)).toEqual([first])
  const told = nextSignal(there, ({ type }) => type === 'ready')
  const second = await insertOne(here)
  await told
  expect(await stateOf(here, second)).toBe('pending')
})

test('who gives jobs to others is told of those that come later', async () => {
  const { here, there, other } = await twoProcesses()
  const third = await other()
  await waitFor(here)
  await waitFor(there, 1)
  // Due at once, and yet not announced here.
  await here.insert([newJob({ runAt: Date.now() - 1_000 })])
  expect(await statesOf(here)).toMatchObject({ pending: 0, running: 1 })
  const told = nextSignal(here, ({ type }) => type === 'arriving')
  await insertOne(third)
  await told
})

test('a worker gets what it was given when the outcomes that it sends along have failed once', async () => {
  const { here, there } = await twoProcesses()
  const [first] = (await claimAfter(there, await insertOne(there))) as [ClaimedJob]
  await waitFor(there)
  const heard = nextSignal(there, ({ type }) => type === 'ready')
  const id = await insertOne(here)
  await heard
  failing(scripts.exchange, 1, new Error('no answer'))
  const settlements = [{ id: first.id, token: first.token, outcome: complete(), inserts: undefined }]
  const exchange = () => there.exchange({ worker: 'worker', settlements, claim: claimRequest(1) })
  await expect(exchange()).rejects.toThrow('no answer')
  expect(await exchange()).toMatchObject({ settled: ['applied'], claimed: [{ id }] })
})

test('a claim that is left behind twice is given jobs under two leases', async () => {
  const { here, there } = await twoProcesses()
  const request = { ...claimRequest(10), lasting: true }
  const jobs: ClaimedJob[] = []
  for (let n = 0; n < 2; n++) {
    await there.exchange({ worker: 'worker', settlements: [], claim: request })
    const taking = taken(there)
    await insertOne(here)
    jobs.push(...(await taking).claimed)
  }
  const tokens = jobs.map(({ token }) => token.slice(token.indexOf('.')))
  expect(new Set(tokens).size).toBe(2)
  for (const job of jobs) expect(await settle(there, job, complete())).toBe('applied')
  const inventory = { leaving: [], claiming: [] }
  const { strays } = await there.extend({ worker: 'worker', lease: 10_000, held: [], inventory })
  expect(strays).toEqual([])
})

test('it is taken back from a process that is no more', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there)
  // As if it was killed: nobody says goodbye.
  failing(scripts.listen, 1, new Error('killed'))
  await there.close()
  const names = watchScripts()
  const ready = nextSignal(here, ({ type }) => type === 'ready')
  const id = await insertOne(here)
  await ready
  expect(names).toEqual(['insert', 'retract'])
  const [job] = await claim(here, 1)
  expect(job).toMatchObject({ id, attempt: 1, crashes: 0 })
  expect(await settle(here, job as ClaimedJob, complete())).toBe('applied')
  expect(await statesOf(here)).toMatchObject({ pending: 0, running: 0, completed: 1 })
})

test('a worker that does not take it gives it back, and no attempt is spent', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there)
  const settled = nextSignal(there, ({ type }) => type === 'settled')
  const id = await insertOne(here)
  expect(await stateOf(here, id)).toBe('running')
  await settled
  expect(await claim(here, 1)).toMatchObject([{ id, attempt: 1, crashes: 0 }])
})

test('so does a process that closes', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there)
  const arriving = nextSignal(there, ({ type }) => type === 'ready')
  const id = await insertOne(here)
  await arriving
  await there.close()
  expect(await claim(here, 1)).toMatchObject([{ id, attempt: 1 }])
})

test('nothing is given away while a process closes', async () => {
  const { here, other } = await twoProcesses()
  for (let n = 0; n < 20; n++) {
    const there = await other()
    await waitFor(there)
    const [id] = await Promise.all([insertOne(here), there.close()])
    // Long before the lease is over.
    await vi.waitFor(async () => expect(idsOf(await claim(here, 1))).toEqual([id]), { timeout: 2_000 })
  }
})

test('those who have gone are not woken in place of others', async () => {
  const { here, there, other } = await twoProcesses()
  for (let n = 0; n < 10; n++) {
    const gone = await other()
    await waitFor(gone)
    await gone.close()
  }
  await waitFor(there)
  const told = nextSignal(there, ({ type }) => type === 'ready')
  await insertMany(here, 2, { input: JSON.stringify('x'.repeat(40_000)) })
  await told
})

test.each<[string, number, Partial<NewJob>]>([
  ['many', 21, {}],
  ['large ones', 2, { input: JSON.stringify('x'.repeat(40_000)) }],
  ['those of another lane', 1, { lane: 0 }],
])('%s are not given to a worker', async (_, count, fields) => {
  const { here, there } = await twoProcesses()
  const { picks, ...request } = claimRequest(100)
  const own = picks.filter(({ lane }) => lane !== 0)
  await there.exchange({ worker: 'w', settlements: [], claim: { ...request, picks: own, lasting: true } })
  const heard = nextSignal(there, ({ type }) => type === 'ready')
  await insertMany(here, count, fields)
  await heard
  expect(await statesOf(here)).toMatchObject({ pending: count, running: 0 })
})

test('nothing is given of a paused queue, nor past those that wait', async () => {
  const { here, there } = await twoProcesses()
  const first = await insertOne(here)
  const [job] = (await claim(here, 1)) as [ClaimedJob]
  await waitFor(there)
  await here.configure({ queue: 'main', paused: true })
  const second = await insertOne(here)
  expect(await stateOf(here, second)).toBe('pending')
  await here.configure({ queue: 'main', paused: false })
  const third = await insertOne(here)
  expect(await stateOf(here, third)).toBe('pending')
  expect(await settle(here, job, complete())).toBe('applied')
  expect(await stateOf(here, first)).toBe('completed')
  expect(idsOf(await claim(here, 5))).toEqual([second, third])
})

test('a worker of the same process gets it in the answer of the insert', async () => {
  const { here } = await twoProcesses()
  await insertOne(here)
  await claim(here, 1)
  const names = watchScripts()
  const taking = taken(here)
  const ids = await insertMany(here, 3)
  const { claimed } = await taking
  expect(idsOf(claimed)).toEqual(ids)
  expect(names).toEqual(['insert'])
  for (const one of claimed) expect(await settle(here, one, complete())).toBe('applied')
})

test('a worker of the same process gets it later where others wait', async () => {
  const { here } = await twoProcesses()
  const waiting = await insertMany(here, 2)
  const taking = taken(here, 2)
  const id = await insertOne(here)
  expect(idsOf((await taking).claimed)).toEqual(waiting)
  expect(await stateOf(here, id)).toBe('pending')
})

test('a worker of the same process gets it where the answer of the insert was lost', async () => {
  const { here } = await twoProcesses()
  twice(scripts.insert)
  const taking = taken(here)
  const id = await insertOne(here)
  expect(idsOf((await taking).claimed)).toEqual([id])
})

test('an insert whose answer was lost gives nothing twice', async () => {
  const { here, there } = await twoProcesses()
  await waitFor(there)
  const taking = taken(there)
  const job = newJob()
  await here.insert([job])
  expect((await here.insert([job]))[0]?.status).toBe('duplicate')
  expect(idsOf((await taking).claimed)).toEqual([job.id])
  expect(await statesOf(here)).toMatchObject({ pending: 0, running: 1 })
})

test('jobs that are taken back are counted by a limit that has come meanwhile', async () => {
  const { here, there, other } = await twoProcesses()
  const third = await other()
  await waitFor(there)
  failing(scripts.listen, 1, new Error('killed'))
  await there.close()
  let isLooked: () => void = () => {}
  const looked = new Promise<void>((resolve) => {
    isLooked = resolve
  })
  before(scripts.retract, async () => {
    await choose(third, queueGate(), { limit: { concurrency: 2 } })
    isLooked()
  })
  await insertMany(here, 2)
  await looked
  const { running } = await statesOf(here)
  expect(await gateOf(here, queueGate())).toMatchObject({ running })
})

test('what a worker left behind is of no use when it has claimed at the desk', async () => {
  const { here, there } = await twoProcesses()
  await choose(here, jobGate('slow'), { limit: { concurrency: 1 } })
  await waitFor(there, 1, ['main', 'limited'])
  // Its only slot is taken by a job that the desk minds.
  const told = nextSignal(there, ({ type }) => type === 'ready')
  await here.insert([newJob({ id: 'slow', name: 'slow', queue: 'limited', traffic: { ...gated, key: 'k' } })])
  await told
  const request = { worker: 'worker', settlements: [], claim: claimRequest(1, ['main', 'limited']) }
  expect(idsOf((await there.exchange(request)).claimed)).toEqual(['slow'])
  const id = await insertOne(here)
  expect(idsOf(await claim(here, 1, { worker: 'idle' }))).toEqual([id])
})

test('a worker with one slot is given one job, whatever the number of shards', async () => {
  const prefix = freshPrefix()
  const [here, there] = [await openSpread(prefix), await openSpread(prefix)]
  await insertMany(here, 30)
  await completeAll(here, await claim(here, 30))
  await there.extend({ worker: 'worker', lease: 10_000, held: [] })
  await waitFor(there, 1)
  for (let n = 0; n < 12; n++) await insertOne(here)
  expect((await statesOf(here)).running).toBeLessThanOrEqual(1)
})

/** The claim of an idle worker, which it leaves behind. */
async function waitFor(store: Store, room = 10, queues?: string[]): Promise<void> {
  const request = { ...claimRequest(room, queues), lasting: true }
  const { claimed } = await store.exchange({ worker: 'worker', settlements: [], claim: request })
  expect(claimed).toEqual([])
}

/** What a worker claims when it hears that jobs arrive, as it does. */
function taken(store: Store, room = 10): Promise<ExchangeResult> {
  return new Promise((resolve) => {
    const stop = store.subscribe(({ type }) => {
      if (type !== 'arriving') return
      stop()
      resolve(store.exchange({ worker: 'worker', settlements: [], claim: claimRequest(room) }))
    })
  })
}

async function twoProcesses(): Promise<{ here: Store; there: Store; other: () => Promise<Store> }> {
  const prefix = freshPrefix()
  const other = () => openStore({ prefix })
  const here = await other()
  // The queue and its kind are known from the beginning.
  const [job] = await claimAfter(here, await insertOne(here))
  await settle(here, job as ClaimedJob, complete(undefined, { ...retention, completed: 0 }))
  return { here, there: await other(), other }
}

async function claimAfter(store: Store, id: string): Promise<readonly ClaimedJob[]> {
  const jobs = await claim(store, 1)
  expect(idsOf(jobs)).toEqual([id])
  return jobs
}

async function openSpread(prefix: string): Promise<Store> {
  return spread(await openStore({ prefix, shards: 3 }))
}

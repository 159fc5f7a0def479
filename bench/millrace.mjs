// Millrace's side of every case. Each export is one measurement; child.mjs runs it in a fresh process.
// Imports nothing but the built package, so that it runs without the peers, and of its engines only the one that
// is measured, so that it runs where the driver of another is not.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { planPicks } from '../dist/core/lanes.js'
import { completed } from '../dist/core/lifecycle.js'
import { compileLanes } from '../dist/core/options.js'
import { defineJob, Millrace } from '../dist/index.js'
import { newId, newToken } from '../dist/system/ids.js'
import { serve, stopwatch, workerApart } from './latency.mjs'
import { median } from './statistics.mjs'
import { bursts, expectEqual, input, inputs, payloads, rate, slots, warmup } from './workload.mjs'

/**
 * No-op jobs through a worker, from its start until the last outcome is committed. The jobs are added before
 * the clock starts, or after it with `enqueueInside`.
 */
export async function processJobs(options) {
  const { jobs, concurrency = slots, enqueueInside = false } = options
  const { mill, noop, drained } = await open(options)
  const early = warmup(jobs)
  await mill.enqueueMany(noop, inputs(early))
  const first = mill.worker({ concurrency })
  await first.start()
  await drained(early)
  await first.stop()

  const all = inputs(jobs)
  if (!enqueueInside) await mill.enqueueMany(noop, all)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await mill.enqueueMany(noop, all)
    await mill.worker({ concurrency }).start()
    await drained(early + jobs)
  })

  const { states, totals } = await mill.stats()
  expectEqual('completed jobs', totals.completed, early + jobs)
  expectEqual('jobs left', states.pending + states.running, 0)
  await mill.close()
  return { rate: speed }
}

/** A flow: one job that waits for all the others and reads what became of them. */
export async function processFlow(options) {
  const { jobs } = options
  const { mill, noop, gather } = await open(options)
  const run = async (count) => {
    function* children() {
      for (const one of inputs(count)) yield { job: noop, input: one }
    }
    const flow = await mill.flow({ job: gather, input: null, children: children() })
    const worker = mill.worker({ concurrency: slots })
    await worker.start()
    const seen = await flow.result()
    await worker.stop()
    expectEqual('children seen', seen, count)
  }
  await run(warmup(jobs))
  const speed = await rate(jobs, () => run(jobs))
  await mill.close()
  return { rate: speed }
}

/** Jobs added to a worker that is already running, as a queue in memory is used. */
export async function runJobs(options) {
  const { jobs, single = false } = options
  const { mill, noop, drained } = await open(options)
  const early = warmup(jobs)
  await mill.worker({ concurrency: slots }).start()
  await mill.enqueueMany(noop, inputs(early))
  await drained(early)

  const all = inputs(jobs)
  const speed = await rate(jobs, async () => {
    if (single) await Promise.all(all.map((one) => mill.enqueue(noop, one)))
    else await mill.enqueueMany(noop, all)
    await drained(early + jobs)
  })
  await mill.close()
  return { rate: speed }
}

/** Bursts of 500 single `enqueue` calls, each awaited until all of its jobs are committed. */
export async function enqueueJobs(options) {
  const { jobs } = options
  const { mill, noop } = await open(options)
  await addBursts(mill, noop, warmup(jobs))
  const before = (await mill.stats()).totals.enqueued
  const speed = await rate(jobs, () => addBursts(mill, noop, jobs))
  expectEqual('enqueued jobs', (await mill.stats()).totals.enqueued - before, jobs)
  await mill.close()
  return { rate: speed }
}

/** All at once, by one call. */
export async function enqueueMany(options) {
  const { jobs } = options
  const { mill, noop } = await open(options)
  await mill.enqueueMany(noop, inputs(warmup(jobs)))
  const before = (await mill.stats()).totals.enqueued
  const all = inputs(jobs)
  const speed = await rate(jobs, () => mill.enqueueMany(noop, all))
  expectEqual('enqueued jobs', (await mill.stats()).totals.enqueued - before, jobs)
  await mill.close()
  return { rate: speed }
}

async function addBursts(mill, noop, count) {
  for (const some of bursts(count)) await Promise.all(some.map((one) => mill.enqueue(noop, one)))
}

/** From the call of `enqueue` to the first line of the handler, the worker having been idle for a while. */
export async function latency(options) {
  const { apart = false } = options
  const watch = stopwatch()
  const { mill, noop } = await open(options, () => watch.started())
  const worker = apart
    ? workerApart('./millrace.mjs', options, watch.started)
    : mill.worker({ concurrency: slots })
  await worker.start()
  const answer = await watch.sample(options, (n) => mill.enqueue(noop, input(n)))
  await worker.stop()
  await mill.close()
  return answer
}

/** Serves `latency` in a second process: tells when each job starts. */
export function serveLatency(options) {
  return serve(async (started) => {
    const { mill } = await open(options, started)
    await mill.worker({ concurrency: slots }).start()
  })
}

/** The memory of a server of Redis that a job takes while it waits. */
export async function bytes(options) {
  const { url, jobs } = options
  const { memoryOf } = await import('./redis-probe.mjs')
  const fill = async (count) => {
    const { mill, noop } = await open(options)
    await mill.enqueueMany(noop, payloads(count))
    await mill.close()
  }
  await fill(1)
  return memoryOf(url, jobs, () => fill(jobs))
}

/** What a worker that has nothing to do asks a server of Redis. */
export async function idle(options) {
  const { url, jobs, seconds } = options
  const { idleCommands } = await import('./redis-probe.mjs')
  const { mill, noop, drained } = await open(options)
  await mill.worker({ concurrency: slots }).start()
  await mill.enqueueMany(noop, inputs(jobs))
  await drained(jobs)
  const answer = await idleCommands(url, seconds)
  await mill.close()
  return answer
}

/** What a server of PostgreSQL writes for each job; with `single`, each is added by a call of its own. */
export async function writes(options) {
  const { url, jobs, single = false } = options
  // Only here, because it brings the driver along.
  const { writtenBy } = await import('./postgres-probe.mjs')
  const once = async (count) => {
    const { mill, noop, drained } = await open(options)
    if (single) await addBursts(mill, noop, count)
    else await mill.enqueueMany(noop, inputs(count))
    await mill.worker({ concurrency: slots }).start()
    await drained(count)
    const { states } = await mill.stats()
    expectEqual('jobs left', states.pending + states.running, 0)
    await mill.close()
  }
  await once(warmup(jobs))
  return writtenBy(url, jobs, () => once(jobs))
}

/**
 * The throughput of a worker that always has about `jobs` before it, for `seconds`: over the whole time, and over
 * its last fifth. With `hold`, a transaction of somebody else is open all the while.
 */
export async function steadily(options) {
  const { jobs, seconds, hold = false, url } = options
  const { mill, noop, done, drained } = await open(options)
  await mill.enqueueMany(noop, inputs(jobs))
  await mill.worker({ concurrency: slots }).start()
  await drained(jobs)
  const release = hold ? await (await import('./postgres-probe.mjs')).holdTransaction(url) : async () => {}

  const step = Math.ceil(jobs / 5)
  let added = jobs
  const [started, before] = [performance.now(), done()]
  const since = () => (performance.now() - started) / 1000
  let late = { at: 0, done: before }
  // Not before something is done in the last fifth: without that there is no rate of it.
  while (since() < seconds || done() === late.done) {
    if (since() < seconds * 0.8) late = { at: since(), done: done() }
    if (added - done() >= jobs) await sleep(1)
    else {
      await mill.enqueueMany(noop, inputs(step))
      added += step
    }
  }
  const last = { at: since(), done: done() }
  await drained(added)
  await release()

  const { totals } = await mill.stats()
  expectEqual('completed jobs', totals.completed, added)
  await mill.close()
  return {
    rate: (last.done - before) / last.at,
    last: (last.done - late.done) / (last.at - late.at),
  }
}

/**
 * The time of a claim of 100 jobs, as a worker of 100 slots asks for it, in a store that `prefill` made. Each
 * batch is settled and replaced outside the clock, so that the backlog keeps its size. The median, because
 * now and then a commit also pays for a checkpoint of what others wrote.
 */
export async function claims(options) {
  const { groups = 0, exchanges = 300 } = options
  const store = await openStore(options)
  await store.open()
  const times = []
  for (let i = 0; i < exchanges; i++) {
    const claim = claimRequest(slots)
    const started = performance.now()
    const { claimed } = await store.exchange({ worker: 'bench', settlements: [], claim })
    times.push(performance.now() - started)
    expectEqual('claimed jobs', claimed.length, slots)
    await settle(store, claimed, 0)
    await store.insert(newJobs(slots, { groups, from: i * slots }))
  }
  await store.close()
  // The first third fills the page cache and warms up the code.
  return { cost: (median(times.slice(exchanges / 3)) * 1000) / slots }
}

/** The time of a page of what few jobs are, or none is, in a store that `prefill` made; all pages, where it takes several. */
export async function lists(options) {
  const store = await openStore(options)
  await store.open()
  const rare = newJobs(10).map((job) => ({ ...job, name: 'rare', tags: ['rare'] }))
  await store.insert(rare)
  await store.insert(rare.map((job) => ({ ...job, id: newId(Date.now()), delay: week })))
  const times = []
  for (let round = 0; round < 20; round++) {
    for (const state of ['pending', 'scheduled', 'completed']) {
      for (const few of [{ name: 'rare' }, { tag: 'rare' }, { tag: 'none' }, { before: 1 }]) {
        const started = performance.now()
        await listAll(store, { state, ...few })
        times.push(performance.now() - started)
      }
    }
  }
  await store.close()
  return { page: median(times), slowest: times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)] }
}

async function listAll(store, filter) {
  let cursor
  do cursor = (await store.list({ filter, limit: 100, cursor })).cursor
  while (cursor !== undefined)
}

/** A store with so many jobs in each state, for `claims` and `lists` to start from a copy of it. */
export async function prefill(options) {
  const { waiting, scheduled = 0, finished = 0, groups = 0 } = options
  const store = await openStore(options)
  await store.open()
  await eachBatch(finished, async (count) => {
    await store.insert(newJobs(count))
    const { claimed } = await store.exchange({ worker: 'bench', settlements: [], claim: claimRequest(count) })
    await settle(store, claimed, week)
  })
  await eachBatch(scheduled, (count) => store.insert(newJobs(count, { delay: week })))
  await eachBatch(waiting, (count, from) => store.insert(newJobs(count, { groups, from })))
  await store.close()
  return {}
}

const week = 7 * 24 * 3600_000
const lanes = compileLanes({}, slots)

async function eachBatch(total, work) {
  for (let n = 0; n < total; n += 1000) await work(Math.min(1000, total - n), n)
}

function claimRequest(count) {
  const room = { shared: count, own: [0, 0, 0, 0] }
  return {
    token: newToken(),
    lease: 30_000,
    room,
    picks: planPicks(room, lanes, ['default'], { turn: 0, claim: 0 }),
    turn: 0,
  }
}

function settle(store, claimed, retain) {
  const outcome = completed(undefined, { completed: retain, dead: retain })
  const settlements = claimed.map(({ id, token }) => ({ id, token, outcome, inserts: undefined }))
  return store.exchange({ worker: 'bench', settlements, claim: undefined })
}

function newJobs(count, { delay = 0, groups = 0, from = 0 } = {}) {
  const text = JSON.stringify(input(0))
  return Array.from({ length: count }, (_, n) => ({
    id: newId(Date.now()),
    name: 'noop',
    queue: 'default',
    lane: 2,
    input: text,
    delay,
    runAt: undefined,
    maxAttempts: 3,
    maxCrashes: 3,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    traffic:
      groups === 0 ? undefined : { gated: false, group: `tenant-${(from + n) % groups}`, key: undefined },
    dedupe: undefined,
    family: undefined,
    guard: undefined,
  }))
}

/**
 * The worker's memory after each tenth of the jobs, with the garbage collected: the mean of the last three
 * points against that of the first three. Needs --expose-gc.
 */
export async function memory(options) {
  const { jobs } = options
  const { mill, noop, drained } = await open(options)
  await mill.worker({ concurrency: slots }).start()
  const points = []
  for (let tenth = 1; tenth <= 10; tenth++) {
    const upTo = Math.round((jobs * tenth) / 10)
    for (let n = Math.round((jobs * (tenth - 1)) / 10); n < upTo; n += 1000) {
      await mill.enqueueMany(noop, inputs(Math.min(1000, upTo - n)))
    }
    await drained(upTo)
    globalThis.gc()
    globalThis.gc()
    const { heapUsed, rss } = process.memoryUsage()
    points.push({ heap: heapUsed / 1e6, rss: rss / 1e6 })
  }
  await mill.close()
  const mean = (some, of) => some.reduce((sum, point) => sum + point[of], 0) / some.length
  const [first, last] = [points.slice(0, 3), points.slice(-3)]
  return {
    heap: mean(last, 'heap'),
    heapAtFirst: mean(first, 'heap'),
    rss: mean(last, 'rss'),
    rssAtFirst: mean(first, 'rss'),
  }
}

/** Traffic control that never holds anything up, so that only its cost is measured. */
const kinds = {
  none: {},
  limit: { limit: { rate: { max: 1_000_000, per: '100ms' }, concurrency: 100_000 } },
  breaker: { breaker: {} },
  // Whose job comes next is anybody's guess.
  groups: { group: ({ n }) => `tenant-${((n * 2654435761) >>> 8) % 100}` },
  manyGroups: { group: ({ n }) => `tenant-${((n * 2654435761) >>> 8) % 1000}` },
  // Each tenant adds fifty at a time, so that jobs that run side by side are far apart in the file.
  blocks: { group: ({ n }) => `tenant-${Math.floor(n / 50) % 1000}` },
}

/** A Millrace with one no-op job, and a way to wait until so many have run and nothing is left to write. */
async function open(options, started = () => {}) {
  const { retain = 0, traffic = 'none' } = options
  let done = 0
  const noop = defineJob({
    name: 'noop',
    retain,
    ...kinds[traffic],
    run: async () => {
      done++
      started()
    },
  })
  const store = await openStore(options)
  const gather = defineJob({
    name: 'gather',
    timeout: 0,
    async run(_, { children }) {
      let seen = 0
      for await (const { state } of children(noop)) if (state === 'completed') seen++
      return seen
    },
  })
  const mill = new Millrace({ store, jobs: [noop, gather] })
  mill.on('error', ({ error, during }) => {
    throw new Error(during, { cause: error })
  })
  let settled = 0
  let check = () => {}
  // Comes when a worker has nothing to run and everything it did is committed.
  mill.on('drained', () => {
    settled = done
    check()
  })
  const drained = (count) =>
    new Promise((resolve) => {
      check = () => settled >= count && resolve()
      check()
    })
  await mill.open()
  return { mill, noop, gather, done: () => done, drained }
}

const stores = {
  memory: ({ MemoryStore }) => new MemoryStore(),
  sqlite: ({ SqliteStore }, { folder, synchronous }) =>
    new SqliteStore({ file: join(folder, 'jobs.db'), synchronous }),
  postgres: ({ PostgresStore }, { url }) => new PostgresStore({ url }),
  redis: ({ RedisStore }, { url }) => new RedisStore({ url }),
}

async function openStore(options) {
  const { engine } = options
  const built = new URL(`../dist/stores/${engine}/index.js`, import.meta.url)
  if (!existsSync(built))
    throw new Error(`Millrace has no engine '${engine}': there is no dist/stores/${engine}`)
  return stores[engine](await import(built), options)
}

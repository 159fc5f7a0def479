// Millrace's side of every case. Each export is one measurement; child.mjs runs it in a fresh process.
// Imports nothing but the built package, so that it runs without the peers.
import { fork } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { planPicks } from '../dist/core/lanes.js'
import { completed } from '../dist/core/lifecycle.js'
import { compileLanes } from '../dist/core/options.js'
import { defineJob, Millrace } from '../dist/index.js'
import { MemoryStore } from '../dist/stores/memory/index.js'
import { SqliteStore } from '../dist/stores/sqlite/index.js'
import { newId, newToken } from '../dist/system/ids.js'
import { median, percentile } from './statistics.mjs'
import { burst, expectEqual, input, inputs, rate, slots, warmup } from './workload.mjs'

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
  const add = async (count) => {
    for (let n = 0; n < count; n += burst) {
      await Promise.all(Array.from({ length: burst }, (_, k) => mill.enqueue(noop, input(n + k))))
    }
  }
  await add(warmup(jobs))
  const before = (await mill.stats()).totals.enqueued
  const speed = await rate(jobs, () => add(jobs))
  expectEqual('enqueued jobs', (await mill.stats()).totals.enqueued - before, Math.ceil(jobs / burst) * burst)
  await mill.close()
  return { rate: speed }
}

/** From the call of `enqueue` to the first line of the handler, the worker having been idle for a while. */
export async function latency(options) {
  const { jobs: samples, apart = false, pause } = options
  let started
  const { mill, noop } = await open(options, () => started(microseconds()))
  const worker = apart ? await workerApart(options, (at) => started(at)) : mill.worker({ concurrency: slots })
  await worker.start()
  const times = []
  for (let n = 0; n < samples; n++) {
    await sleep(pause * (1 + Math.random() / 3))
    const start = new Promise((resolve) => {
      started = resolve
    })
    const called = microseconds()
    await mill.enqueue(noop, input(n))
    times.push(((await start) - called) / 1000)
  }
  await worker.stop()
  await mill.close()
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
}

/** Serves `latency` in a second process: tells when each job starts. */
export async function serveLatency(options) {
  const { mill } = await open(options, () => process.send({ at: microseconds() }))
  await mill.worker({ concurrency: slots }).start()
  process.send({ ready: true })
  await new Promise(() => {})
}

async function workerApart(options, told) {
  const child = fileURLToPath(new URL('child.mjs', import.meta.url))
  const spec = { module: './millrace.mjs', measure: 'serveLatency', options }
  const running = fork(child, [JSON.stringify(spec)], { stdio: ['ignore', 2, 2, 'ipc'] })
  const ready = new Promise((resolve, reject) => {
    running.on('message', (message) => (message.ready ? resolve() : told(message.at)))
    running.on('exit', () => reject(new Error('the worker process ended')))
  })
  return {
    start: () => ready,
    stop: () => new Promise((resolve) => running.on('exit', resolve).kill('SIGKILL')),
  }
}

/** The monotonic clock of the machine: the same in every process. */
function microseconds() {
  return Number(process.hrtime.bigint() / 1000n)
}

/**
 * The time of a claim of 100 jobs, as a worker of 100 slots asks for it, in a file that `prefill` made. Each
 * batch is settled and replaced outside the clock, so that the backlog keeps its size. The median, because
 * now and then a commit also pays for a checkpoint of what others wrote.
 */
export async function claims({ template, shared, folder, groups = 0, exchanges = 300 }) {
  const file = join(folder, 'jobs.db')
  copyFileSync(join(shared, template), file)
  const store = new SqliteStore({ file, synchronous: 'normal' })
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

/** A file with so many jobs in each state, for `claims` to copy. */
export async function prefill({ template, shared, waiting, scheduled = 0, finished = 0, groups = 0 }) {
  const store = new SqliteStore({ file: join(shared, template), synchronous: 'normal' })
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

/** A Millrace with one no-op job, and a way to wait until so many have run and nothing is left to write. */
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

async function open({ engine, folder, synchronous, retain = 0, traffic = 'none' }, started = () => {}) {
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
  const store =
    engine === 'memory' ? new MemoryStore() : new SqliteStore({ file: join(folder, 'jobs.db'), synchronous })
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
  return { mill, noop, gather, drained }
}

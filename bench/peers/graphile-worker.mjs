// graphile-worker: https://worker.graphile.org
//
// Its defaults: one job at a time, fetched and completed one by one; completed jobs are deleted.
// Tuned as its page on performance advises; see postgres-tuning.mjs. Jobs are added with `addJobs` where Millrace
// adds many. Nothing is logged, as in its own benchmark.
//
// A completed job is committed some time after its handler; stopping waits for that, so it is inside the clock.
import pg from 'pg'
import { serve, stopwatch, workerApart } from '../latency.mjs'
import { writtenBy } from '../postgres-probe.mjs'
import { batch, graphileWorker, graphileWorkerIdle } from '../postgres-tuning.mjs'
import { bursts, expectEqual, input, inputs, rate, warmup } from '../workload.mjs'

// Read when the package is loaded.
process.env.NO_LOG_SUCCESS = '1'
const { Logger, makeWorkerUtils, run, runMigrations } = await import('graphile-worker')

const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') process.stderr.write(`graphile-worker: ${message}\n`)
})

export async function processJobs({ url, jobs, enqueueInside = false }) {
  const utils = await open(url)
  const early = warmup(jobs)
  await addMany(utils, early)
  await work(url, early)
  if (!enqueueInside) await addMany(utils, jobs)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await addMany(utils, jobs)
    await work(url, jobs)
  })
  expectEqual('jobs left', await left(url), 0)
  await utils.release()
  return { rate: speed }
}

export async function enqueueJobs({ url, jobs }) {
  const utils = await open(url)
  const early = warmup(jobs)
  await addBursts(utils, early)
  const before = await left(url)
  const speed = await rate(jobs, () => addBursts(utils, jobs))
  expectEqual('jobs added', (await left(url)) - before, jobs)
  await utils.release()
  return { rate: speed }
}

/** With `single`, each job is added by a call of its own. */
export async function writes({ url, jobs, single = false }) {
  const once = async (count) => {
    const utils = await open(url)
    if (single) await addBursts(utils, count)
    else await addMany(utils, count)
    await utils.release()
    await work(url, count)
  }
  await once(warmup(jobs))
  const answer = await writtenBy(url, jobs, () => once(jobs))
  expectEqual('jobs left', await left(url), 0)
  return answer
}

export async function latency(options) {
  const { url, apart = false } = options
  const watch = stopwatch()
  const utils = await open(url)
  const worker = apart
    ? workerApart('./peers/graphile-worker.mjs', options, watch.started)
    : idleWorker(url, () => watch.started())
  await worker.start()
  const answer = await watch.sample(options, (n) => utils.addJob('noop', input(n)))
  await worker.stop()
  await utils.release()
  return answer
}

export function serveLatency({ url }) {
  return serve((started) => idleWorker(url, started).start())
}

function idleWorker(url, started) {
  let runner
  return {
    async start() {
      runner = await run(options(url, graphileWorkerIdle, async () => started()))
    },
    stop: () => runner.stop(),
  }
}

async function open(url) {
  await runMigrations({ connectionString: url, logger })
  return makeWorkerUtils({ connectionString: url, maxPoolSize: graphileWorker.maxPoolSize, logger })
}

async function addMany(utils, count) {
  const all = inputs(count)
  for (let n = 0; n < count; n += batch) {
    await utils.addJobs(all.slice(n, n + batch).map((payload) => ({ identifier: 'noop', payload })))
  }
}

async function addBursts(utils, count) {
  for (const some of bursts(count)) await Promise.all(some.map((one) => utils.addJob('noop', one)))
}

async function work(url, count) {
  let done = 0
  let finish
  const finished = new Promise((resolve) => {
    finish = resolve
  })
  const noop = async () => {
    if (++done === count) finish()
  }
  const runner = await run(options(url, graphileWorker, noop))
  await finished
  await runner.stop()
  expectEqual('jobs run', done, count)
}

function options(url, worker, noop) {
  return {
    preset: { worker: { connectionString: url, logger, ...worker } },
    taskList: { noop },
    parsedCronItems: [],
    noHandleSignals: true,
  }
}

async function left(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('SELECT count(*)::int AS count FROM graphile_worker._private_jobs')
  await client.end()
  return rows[0].count
}

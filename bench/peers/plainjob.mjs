// plainjob: https://github.com/justplainstuff/plainjob
//
// Its defaults: WAL, synchronous NORMAL, one job at a time in each worker, two transactions and one update
// for each job, done jobs kept for 7 days, every step logged to the console.
// Tuned: nothing logged, as in its own benchmark; jobs added with `addMany`; 100 workers for 100 slots; the
// connection, which is the caller's, has the settings of Millrace's. Its documentation advises several
// processes for more throughput; with one writer to a file that brings nothing here, so there is one.
// It cannot run without retention, so unlike the others it never pays for deleting a job inside the clock.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { better, defineQueue, defineWorker, JobStatus } from 'plainjob'
import { bursts, expectEqual, inputs, rate, slots, tune, warmup } from '../workload.mjs'

export async function processJobs(options) {
  const { jobs, concurrency = slots } = options
  const queue = open(options)
  const early = warmup(jobs)
  queue.addMany('noop', inputs(early))
  await work(queue, early, concurrency)
  queue.addMany('noop', inputs(jobs))
  const speed = await rate(jobs, () => work(queue, jobs, concurrency))
  expectEqual('done jobs', queue.countJobs({ status: JobStatus.Done }), early + jobs)
  queue.close()
  return { rate: speed }
}

/** `add` is synchronous, and each is a transaction of its own. */
export async function enqueueJobs(options) {
  const { jobs } = options
  const queue = open(options)
  const add = (count) => {
    for (const some of bursts(count)) for (const one of some) queue.add('noop', one)
  }
  add(warmup(jobs))
  const speed = await rate(jobs, () => add(jobs))
  queue.close()
  return { rate: speed }
}

function open({ folder, synchronous }) {
  const db = new Database(join(folder, 'plainjob.db'))
  const queue = defineQueue({ connection: better(db), logger })
  tune(db, synchronous)
  return queue
}

async function work(queue, count, concurrency) {
  let done = 0
  let finish
  const finished = new Promise((resolve) => {
    finish = resolve
  })
  const onCompleted = () => {
    if (++done === count) finish()
  }
  const options = { queue, logger, onCompleted }
  const workers = Array.from({ length: concurrency }, () => defineWorker('noop', run, options))
  for (const worker of workers) void worker.start()
  await finished
  for (const worker of workers) void worker.stop()
}

async function run({ data }) {
  JSON.parse(data)
}

const logger = { error: console.error, warn: console.error, info() {}, debug() {} }

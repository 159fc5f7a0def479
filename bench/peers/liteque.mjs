// liteque: https://github.com/karakeep-app/liteque
//
// Its defaults: WAL, synchronous NORMAL, 64 MiB of page cache; completed jobs are deleted; one job per claim.
// Tuned: 100 slots, failed jobs not kept, the shortest poll; the connection has the settings of Millrace's.
//
// Its claim sorts all waiting jobs, so it slows down as they become more: the cases give it few.
//
// Its claim passes an async function to a transaction of better-sqlite3, which since version 11.10 refuses
// that. `allowAsync` gives it the behaviour of the version that it was written for: BEGIN, call, COMMIT
// without waiting, so that the claim's statements run after the commit, each in a transaction of its own.
// Millrace needs a newer SQLite than those versions carry; so both sides have the same driver and SQLite.
import { join } from 'node:path'
import { buildDBClient, Runner, SqliteQueue } from 'liteque'
import { bursts, expectEqual, inputs, rate, slots, tune, warmup } from '../workload.mjs'

export async function processJobs(options) {
  const { jobs } = options
  const { queue, db } = open(options)
  const early = warmup(jobs)
  await fill(queue, db, early)
  await work(queue)
  await fill(queue, db, jobs)
  let done = 0
  const speed = await rate(jobs, () => work(queue, () => done++))
  expectEqual('done jobs', done, jobs)
  return { rate: speed }
}

export async function enqueueJobs(options) {
  const { jobs } = options
  const { queue } = open(options)
  const add = async (count) => {
    for (const some of bursts(count)) await Promise.all(some.map((one) => queue.enqueue(one)))
  }
  await add(warmup(jobs))
  return { rate: await rate(jobs, () => add(jobs)) }
}

function open({ folder, synchronous }) {
  const client = buildDBClient(join(folder, 'liteque.db'), { runMigrations: true })
  const db = client.session.client
  tune(db, synchronous)
  allowAsync(db)
  const queue = new SqliteQueue('noop', client, { defaultJobArgs: { numRetries: 2 }, keepFailedJobs: false })
  return { queue, db }
}

/** Outside the clock, so in one transaction. */
async function fill(queue, db, count) {
  db.exec('BEGIN')
  for (const one of inputs(count)) await queue.enqueue(one)
  db.exec('COMMIT')
}

function work(queue, run = () => {}) {
  const options = { concurrency: slots, pollIntervalMs: 1, timeoutSecs: 60 }
  return new Runner(queue, { run: async () => run() }, options).runUntilEmpty()
}

function allowAsync(db) {
  const begin = db.prepare('BEGIN DEFERRED')
  const commit = db.prepare('COMMIT')
  db.transaction = (fn) => ({
    deferred(...args) {
      begin.run()
      const promise = fn(...args)
      commit.run()
      return promise
    },
  })
}

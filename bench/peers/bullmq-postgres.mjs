// BullMQ on PostgreSQL: https://docs.bullmq.io/guide/postgresql
//
// Its defaults: one job at a time, finished jobs kept. Tuned as that page advises: connections for the
// concurrency, finished jobs removed; see postgres-tuning.mjs. The page's other advice, synchronous_commit off, is
// given to nobody. Jobs are added with `addBulk`.
//
// package.json holds msgpackr-extract, an optional part that it needs for Redis only, at a version that could be
// installed everywhere.
import { createPostgresBackend, Queue, runMigrations, Worker } from 'bullmq'
import pg from 'pg'
import { batch, bullmq } from '../postgres-tuning.mjs'
import { expectEqual, inputs, rate, warmup } from '../workload.mjs'

export async function processJobs({ url, jobs, enqueueInside = false }) {
  await migrate(url)
  const connection = { connectionString: url, max: bullmq.max }
  const queue = new Queue('noop', { connection }, createPostgresBackend)
  const early = warmup(jobs)
  await addMany(queue, early)
  const close = await work(connection, early)
  await close()
  if (!enqueueInside) await addMany(queue, jobs)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await addMany(queue, jobs)
    await work(connection, jobs)
  })
  const counts = await queue.getJobCounts()
  expectEqual('jobs left', JSON.stringify(Object.values(counts).filter((count) => count !== 0)), '[]')
  await queue.close()
  return { rate: speed }
}

async function migrate(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await runMigrations(client)
  await client.end()
}

async function addMany(queue, count) {
  const all = inputs(count)
  const opts = { removeOnComplete: true, removeOnFail: true }
  for (let n = 0; n < count; n += batch) {
    await queue.addBulk(all.slice(n, n + batch).map((data) => ({ name: 'noop', data, opts })))
  }
}

/** A job is committed when its worker says that it is completed. Resolves with what closes the worker. */
async function work(connection, count) {
  let done = 0
  const options = { connection, concurrency: bullmq.concurrency }
  const worker = new Worker('noop', async () => {}, options, createPostgresBackend)
  await new Promise((resolve, reject) => {
    worker.on('completed', () => {
      if (++done === count) resolve()
    })
    worker.on('failed', (_job, error) => reject(error))
    worker.on('error', reject)
  })
  return () => worker.close()
}

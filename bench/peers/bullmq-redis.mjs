// BullMQ on Redis: https://docs.bullmq.io
//
// Its defaults: one job at a time, finished jobs kept. Tuned as its documentation advises: concurrency for what
// waits, finished jobs removed, `addBulk` where Millrace adds many; see redis-tuning.mjs. Each job is completed by
// a call of its own, which brings the next job along. The same driver as Millrace's, without auto-pipelining, which
// its documentation does not mention.
//
// Its queue and its worker have connections of their own, as in its examples.
import { Queue, Worker } from 'bullmq'
import { bullmqConnection, bullmqJobs, inBulks } from '../redis-tuning.mjs'
import { slots } from '../workload.mjs'
import { redisQueue } from './redis-queue.mjs'

export const { processJobs, enqueueJobs, enqueueMany, bytes, idle, latency, serveLatency } = redisQueue({
  module: './peers/bullmq-redis.mjs',
  open,
  add: (queue, one) => queue.add('noop', one),
  addMany,
  work,
  idleWorker,
  left,
})

function open(url) {
  return new Queue('noop', { connection: at(url), defaultJobOptions: bullmqJobs })
}

function addMany(queue, all) {
  return inBulks(all, (some) => queue.addBulk(some.map((data) => ({ name: 'noop', data }))))
}

/** A job is done when its worker says that it is completed. */
async function work(url, count, concurrency) {
  let done = 0
  const worker = new Worker('noop', async () => {}, { connection: at(url), concurrency })
  await new Promise((resolve, reject) => {
    worker.on('completed', () => {
      if (++done === count) resolve()
    })
    worker.on('failed', (_job, error) => reject(error))
    worker.on('error', reject)
  })
  return () => worker.close()
}

function idleWorker(url, started) {
  let worker
  return {
    async start() {
      worker = new Worker('noop', async () => started(), { connection: at(url), concurrency: slots })
      await worker.waitUntilReady()
    },
    stop: () => worker.close(),
  }
}

async function left(queue) {
  return Object.values(await queue.getJobCounts()).reduce((sum, count) => sum + count, 0)
}

function at(url) {
  const { hostname: host, port } = new URL(url)
  return { host, port: Number(port), ...bullmqConnection }
}

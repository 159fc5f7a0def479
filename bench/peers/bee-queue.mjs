// Bee-Queue: https://github.com/bee-queue/bee-queue
//
// Its defaults: one job at a time, finished jobs kept, events published. Tuned as its README advises: concurrency,
// `saveAll` where Millrace adds many, and what nobody uses switched off; see redis-tuning.mjs. It brings a driver of
// its own, node-redis 3.
import BeeQueue from 'bee-queue'
import { beeQueue, inBulks } from '../redis-tuning.mjs'
import { expectEqual, slots } from '../workload.mjs'
import { redisQueue } from './redis-queue.mjs'

export const { processJobs, enqueueJobs, enqueueMany, bytes, idle, latency, serveLatency } = redisQueue({
  module: './peers/bee-queue.mjs',
  open,
  add: (queue, one) => queue.createJob(one).save(),
  addMany,
  work,
  idleWorker,
  left,
})

function open(url, isWorker = false) {
  const { hostname: host, port } = new URL(url)
  return new BeeQueue('noop', { redis: { host, port: Number(port) }, isWorker, ...beeQueue })
}

function addMany(queue, all) {
  return inBulks(all, async (some) => {
    const failed = await queue.saveAll(some.map((one) => queue.createJob(one)))
    expectEqual('jobs refused', failed.size, 0)
  })
}

async function work(url, count, concurrency) {
  let done = 0
  const queue = open(url, true)
  await new Promise((resolve, reject) => {
    queue.on('succeeded', () => {
      if (++done === count) resolve()
    })
    queue.on('failed', (_job, error) => reject(error))
    queue.on('error', reject)
    queue.process(concurrency, async () => {})
  })
  return () => queue.close()
}

function idleWorker(url, started) {
  const queue = open(url, true)
  return {
    async start() {
      await queue.ready()
      queue.process(slots, async () => started())
    },
    stop: () => queue.close(),
  }
}

/** `newestJob` is the last id, not a number of jobs. */
async function left(queue) {
  const { waiting, active, succeeded, failed, delayed } = await queue.checkHealth()
  return waiting + active + succeeded + failed + delayed
}

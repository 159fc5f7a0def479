// BullMQ on Redis: https://docs.bullmq.io
//
// Its defaults: one job at a time, finished jobs kept. Tuned as its documentation advises: concurrency for what
// waits, finished jobs removed, `addBulk` where Millrace adds many; see redis-tuning.mjs. Each job is completed by
// a call of its own, which brings the next job along. The same driver as Millrace's, without auto-pipelining, which
// its documentation does not mention.
//
// Its queue and its worker have connections of their own, as in its examples.
import { Queue, Worker } from 'bullmq'
import { serve, stopwatch, workerApart } from '../latency.mjs'
import { idleCommands, memoryOf } from '../redis-probe.mjs'
import { bullmqConnection, bullmqJobs, inBulks } from '../redis-tuning.mjs'
import { bursts, expectEqual, input, inputs, payloads, rate, slots, warmup } from '../workload.mjs'

export async function processJobs({ url, jobs, concurrency = slots, enqueueInside = false }) {
  const queue = open(url)
  const early = warmup(jobs)
  await addMany(queue, inputs(early))
  const close = await work(url, early, concurrency)
  await close()
  const all = inputs(jobs)
  if (!enqueueInside) await addMany(queue, all)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await addMany(queue, all)
    await work(url, jobs, concurrency)
  })
  expectEqual('jobs left', await left(queue), 0)
  await queue.close()
  return { rate: speed }
}

export async function enqueueJobs({ url, jobs }) {
  return enqueue(url, jobs, async (queue, all) => {
    for (const some of bursts(all.length)) await Promise.all(some.map((one) => queue.add('noop', one)))
  })
}

export async function enqueueMany({ url, jobs }) {
  return enqueue(url, jobs, addMany)
}

async function enqueue(url, jobs, add) {
  const queue = open(url)
  const early = warmup(jobs)
  await add(queue, inputs(early))
  const all = inputs(jobs)
  const speed = await rate(jobs, () => add(queue, all))
  expectEqual('jobs added', (await left(queue)) - early, jobs)
  await queue.close()
  return { rate: speed }
}

export async function bytes({ url, jobs }) {
  const fill = async (count) => {
    const queue = open(url)
    await addMany(queue, payloads(count))
    await queue.close()
  }
  await fill(1)
  return memoryOf(url, jobs, () => fill(jobs))
}

export async function idle({ url, jobs, seconds }) {
  const queue = open(url)
  await addMany(queue, inputs(jobs))
  const close = await work(url, jobs, slots)
  const answer = await idleCommands(url, seconds)
  await close()
  await queue.close()
  return answer
}

export async function latency(options) {
  const { url, apart = false } = options
  const watch = stopwatch()
  const queue = open(url)
  const worker = apart
    ? workerApart('./peers/bullmq-redis.mjs', options, watch.started)
    : idleWorker(url, () => watch.started())
  await worker.start()
  const answer = await watch.sample(options, (n) => queue.add('noop', input(n)))
  await worker.stop()
  await queue.close()
  return answer
}

export function serveLatency({ url }) {
  return serve((started) => idleWorker(url, started).start())
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

function open(url) {
  return new Queue('noop', { connection: at(url), defaultJobOptions: bullmqJobs })
}

function addMany(queue, all) {
  return inBulks(all, (some) => queue.addBulk(some.map((data) => ({ name: 'noop', data }))))
}

/** A job is done when its worker says that it is completed. Resolves with what closes the worker. */
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

async function left(queue) {
  return Object.values(await queue.getJobCounts()).reduce((sum, count) => sum + count, 0)
}

function at(url) {
  const { hostname: host, port } = new URL(url)
  return { host, port: Number(port), ...bullmqConnection }
}

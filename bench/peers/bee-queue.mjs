// Bee-Queue: https://github.com/bee-queue/bee-queue
//
// Its defaults: one job at a time, finished jobs kept, events published. Tuned as its README advises: concurrency,
// `saveAll` where Millrace adds many, and what nobody uses switched off; see redis-tuning.mjs. It brings a driver of
// its own, node-redis 3.
import BeeQueue from 'bee-queue'
import { serve, stopwatch, workerApart } from '../latency.mjs'
import { idleCommands, memoryOf } from '../redis-probe.mjs'
import { beeQueue, inBulks } from '../redis-tuning.mjs'
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
    for (const some of bursts(all.length)) {
      await Promise.all(some.map((one) => queue.createJob(one).save()))
    }
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
    ? workerApart('./peers/bee-queue.mjs', options, watch.started)
    : idleWorker(url, () => watch.started())
  await worker.start()
  const answer = await watch.sample(options, (n) => queue.createJob(input(n)).save())
  await worker.stop()
  await queue.close()
  return answer
}

export function serveLatency({ url }) {
  return serve((started) => idleWorker(url, started).start())
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

/** Resolves with what closes the worker. */
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

/** `newestJob` is the last id, not a number of jobs. */
async function left(queue) {
  const { waiting, active, succeeded, failed, delayed } = await queue.checkHealth()
  return waiting + active + succeeded + failed + delayed
}

// What is measured of a queue on Redis, whichever it is. Each says how it does what it does:
//
//   module                 its own, for the worker in a second process
//   open(url)              a queue, which has `close`
//   add(queue, one)        adds one job
//   addMany(queue, all)    adds many, in the largest batches that it takes
//   work(url, count, concurrency)   resolves when so many are done, with what closes the worker
//   idleWorker(url, started)        { start, stop } of one whose jobs call `started`
//   left(queue)            how many jobs there are, in whatever state
import { serve, stopwatch, workerApart } from '../latency.mjs'
import { idleCommands, memoryOf } from '../redis-probe.mjs'
import { bursts, expectEqual, input, inputs, payloads, rate, slots, warmup } from '../workload.mjs'

export function redisQueue({ module, open, add, addMany, work, idleWorker, left }) {
  return { processJobs, enqueueJobs, enqueueMany, bytes, idle, latency, serveLatency }

  async function processJobs({ url, jobs, concurrency = slots, enqueueInside = false }) {
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

  function enqueueJobs({ url, jobs }) {
    return enqueue(url, jobs, async (queue, all) => {
      for (const some of bursts(all.length)) await Promise.all(some.map((one) => add(queue, one)))
    })
  }

  function enqueueMany({ url, jobs }) {
    return enqueue(url, jobs, addMany)
  }

  async function enqueue(url, jobs, addAll) {
    const queue = open(url)
    const early = warmup(jobs)
    await addAll(queue, inputs(early))
    const all = inputs(jobs)
    const speed = await rate(jobs, () => addAll(queue, all))
    expectEqual('jobs added', (await left(queue)) - early, jobs)
    await queue.close()
    return { rate: speed }
  }

  async function bytes({ url, jobs }) {
    const fill = async (count) => {
      const queue = open(url)
      await addMany(queue, payloads(count))
      await queue.close()
    }
    await fill(1)
    return memoryOf(url, jobs, () => fill(jobs))
  }

  async function idle({ url, jobs, seconds }) {
    const queue = open(url)
    await addMany(queue, inputs(jobs))
    const close = await work(url, jobs, slots)
    const answer = await idleCommands(url, seconds)
    await close()
    await queue.close()
    return answer
  }

  async function latency(options) {
    const { url, apart = false } = options
    const watch = stopwatch()
    const queue = open(url)
    const worker = apart
      ? workerApart(module, options, watch.started)
      : idleWorker(url, () => watch.started())
    await worker.start()
    const answer = await watch.sample(options, (n) => add(queue, input(n)))
    await worker.stop()
    await queue.close()
    return answer
  }

  function serveLatency({ url }) {
    return serve((started) => idleWorker(url, started).start())
  }
}

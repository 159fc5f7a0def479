// p-queue: https://github.com/sindresorhus/p-queue. A queue of functions in memory: no ids that last, no
// retries, no priorities that cannot starve. Nothing to tune but the concurrency.
import PQueue from 'p-queue'
import { expectEqual, inputs, rate, slots, warmup } from '../workload.mjs'

export async function runJobs({ jobs }) {
  let done = 0
  const run = async () => {
    done++
  }
  const queue = new PQueue({ concurrency: slots })
  const work = (all) => {
    for (const one of all) void queue.add(() => run(one))
    return queue.onIdle()
  }
  await work(inputs(warmup(jobs)))
  done = 0
  const all = inputs(jobs)
  const speed = await rate(jobs, () => work(all))
  expectEqual('jobs run', done, jobs)
  return { rate: speed }
}

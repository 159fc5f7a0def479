// fastq: https://github.com/mcollina/fastq, its promise API. A list of values and one function, in memory.
// Nothing to tune but the concurrency.
import fastq from 'fastq'
import { expectEqual, inputs, rate, slots, warmup } from '../workload.mjs'

export async function runJobs({ jobs }) {
  let done = 0
  const run = async (_one) => {
    done++
  }
  const queue = fastq.promise(run, slots)
  const work = (all) => {
    for (const one of all) void queue.push(one)
    return queue.drained()
  }
  await work(inputs(warmup(jobs)))
  done = 0
  const all = inputs(jobs)
  const speed = await rate(jobs, () => work(all))
  expectEqual('jobs run', done, jobs)
  return { rate: speed }
}

// The practical limit of a job queue in memory: the bare insert → claim → delete loop on an array and a map.
//
// It does: give each job an id by which users can look it up, mark it as claimed, run the async handler in
// 100 slots, and delete it when the handler has returned.
// It does not: encode or check the input, make ids that are unique beyond the process, keep tokens or leases,
// know queues, priorities, attempts, timeouts or workers, count anything, catch errors, report what it does.
import { expectEqual, inputs, rate, slots, warmup } from '../workload.mjs'

export async function runJobs({ jobs }) {
  let done = 0
  const run = async (_one) => {
    done++
  }
  await work(inputs(warmup(jobs)), run)
  done = 0
  const all = inputs(jobs)
  const speed = await rate(jobs, () => work(all, run))
  expectEqual('jobs run', done, jobs)
  return { rate: speed }
}

async function work(all, run) {
  const byId = new Map()
  const ready = []
  for (let n = 0; n < all.length; n++) {
    const job = { id: `job-${n}`, input: all[n], claimed: false }
    byId.set(job.id, job)
    ready.push(job)
  }
  let next = 0
  const slot = async () => {
    while (next < ready.length) {
      const job = ready[next++]
      job.claimed = true
      await run(job.input)
      byId.delete(job.id)
    }
  }
  await Promise.all(Array.from({ length: slots }, slot))
  expectEqual('jobs left', byId.size, 0)
}

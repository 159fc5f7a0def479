import { Millrace, type Worker } from 'millrace'
import type { ShopJobs } from './jobs.js'

export interface Shop {
  readonly mill: Millrace
  readonly jobs: ShopJobs
  readonly workers: readonly Worker[]
}

/** The job system and its workers, not started yet. */
export function makeShop(store: string, jobs: ShopJobs): Shop {
  const mill = new Millrace({ store, jobs: Object.values(jobs) })
  const common = {
    handleSignals: false, // the shop shows how it drains, so it listens to Ctrl-C itself
    lease: '5s', // after a kill -9 the next start takes over within seconds
  }
  const desk = mill.worker({
    name: 'desk',
    queues: ['payments', 'mail'],
    concurrency: 16,
    // However many mails there are, a payment finds a free slot.
    lanes: { reserved: { critical: 4 } },
    ...common,
  })
  const studio = mill.worker({ name: 'studio', queues: ['images', 'reports'], concurrency: 4, ...common })
  return { mill, jobs, workers: [desk, studio] }
}

export async function startWork({ workers }: Shop): Promise<void> {
  await Promise.all(workers.map((worker) => worker.start()))
}

/** Lets running jobs end, or gives them back at once; a second call with `force` cuts the first short. */
export async function stopWork({ workers }: Shop, force: boolean): Promise<void> {
  await Promise.all(workers.map((worker) => worker.stop({ grace: force ? 0 : '30s' })))
}

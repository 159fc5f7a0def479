import { bounds } from '../../core/bounds.js'
import type { ExtendRequest, LeasedJob, Stray } from '../../core/store.js'
import type { Tables } from './tables.js'
import type { Lease, Worker } from './worker.js'

/** What is under the worker's lease though it does not have it. */
export function findStrays(
  tables: Tables,
  worker: Worker,
  { lease: duration, held, inventory }: ExtendRequest,
  now: number,
): Stray[] {
  if (inventory === undefined) return []
  const strays: Stray[] = []
  const known = idsByClaim([...held, ...inventory.leaving], (job) => tables.claimOf(job))
  for (const lease of worker.leases()) {
    if (strays.length >= bounds.batch) break
    if (lease.at > now - duration || inventory.claiming.includes(lease.token)) continue
    strays.push(...straysUnder(tables, lease, known.get(lease.token)))
  }
  return strays
}

function straysUnder(tables: Tables, lease: Lease, known: ReadonlySet<string> = none): Stray[] {
  // Counted before they are looked at: nearly always all are known. One whose settlement has been applied meanwhile may
  // hide a stray, until the worker has heard of it.
  if (lease.size <= known.size) return []
  return lease
    .held()
    .filter(({ job }) => !known.has(job.id))
    .map((entry) => ({
      id: entry.job.id,
      token: tables.tokenOf(entry, lease),
      claim: lease.token,
      name: entry.job.name,
      queue: entry.job.queue,
    }))
}

const none: ReadonlySet<string> = new Set()

function idsByClaim(
  jobs: readonly LeasedJob[],
  claimOf: (job: LeasedJob) => string | undefined,
): Map<string, Set<string>> {
  const ids = new Map<string, Set<string>>()
  for (const job of jobs) {
    const claim = claimOf(job)
    if (claim === undefined) continue
    const same = ids.get(claim)
    if (same === undefined) ids.set(claim, new Set([job.id]))
    else same.add(job.id)
  }
  return ids
}

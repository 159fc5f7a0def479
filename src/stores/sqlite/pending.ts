import { operate as operateSql, settle as settleSql } from './sql.generated.js'
import type { Kind, Tables } from './tables.js'
import type { Places, Traffic, TrafficJob } from './traffic.js'

/** Where stored jobs go that become pending, and where they leave from when they are not claimed. */
export interface Pending {
  /** `comesBack`: it has run before. */
  enter(kind: Kind, seq: number, comesBack: boolean): void
  leave(kind: Kind, seq: number): void
}

export function makePending(
  tables: Tables,
  traffic: Traffic,
  places: Places,
  signals: { ready(queue: string): void },
): Pending {
  const { db, clock } = tables
  const ready = db.prepare(settleSql.ready)
  const unready = db.prepare(operateSql.unready)

  return {
    enter(kind, seq, comesBack) {
      const job = places.job(seq)
      if (isPlain(job)) ready.run(kind.queueId, kind.lane, seq)
      else traffic.enter(job, comesBack, clock.now())
      signals.ready(kind.queue)
    },
    leave(kind, seq) {
      if (unready.run(kind.queueId, kind.lane, seq).changes === 0) traffic.leave(places.job(seq), clock.now())
    },
  }

  function isPlain({ job }: TrafficJob): boolean {
    if (job.traffic !== undefined) return false
    return tables.queueRow(job.queue)?.traffic !== 1 || traffic.jobGate(job.name) === undefined
  }
}

import type { Runtime } from '../client/runtime.js'
import type { ClaimedJob } from '../core/job.js'
import { laneNames } from '../core/lanes.js'
import type { Outcome } from '../core/lifecycle.js'
import type { SettleResult } from '../core/store.js'
import type { Run } from './run.js'

/** Tells what became of a job that needed no run. */
export function announceUnstarted(
  job: ClaimedJob,
  worker: string,
  outcome: Outcome,
  result: SettleResult,
  runtime: Runtime,
): void {
  if (result !== 'applied') return
  const { id, name, queue } = job
  if (outcome.to === 'completed') announceStored(job, worker, runtime)
  if (outcome.to === 'cancelled')
    runtime.events.emit('cancelled', { id, name, queue, reason: outcome.reason })
}

/** Another had done the same. */
function announceStored(job: ClaimedJob, worker: string, { events }: Runtime): void {
  if (!events.wants('completed')) return
  const { id, name, queue, lane, attempt, startedAt, readyAt } = job
  const priority = laneNames[lane] ?? 'default'
  const about = { id, name, queue, priority, attempt, worker }
  events.emit('completed', { ...about, ran: 0, waited: startedAt - readyAt, stored: true })
}

/** Tells what became of a run, once the store has said so. */
export function announce(run: Run, outcome: Outcome, result: SettleResult, runtime: Runtime): void {
  const { events, clock } = runtime
  if (result === 'lost') return events.emit('lost', run.event())
  if (result === 'waiting') return events.emit('waiting', { ...run.event(), until: undefined, keys: [] })
  const { failure, delay } = outcome
  if (failure !== undefined) {
    events.emit('failed', { ...run.event(), failure, ran: clock.monotonic() - run.startedAt })
  }
  switch (result === 'cancelled' ? 'cancelled' : outcome.to) {
    case 'completed':
      if (run.inserts !== undefined && events.wants('enqueued')) {
        for (const { id, name, queue } of run.inserts)
          events.emit('enqueued', { id, name, queue, duplicate: false })
      }
      if (!events.wants('completed')) return
      return events.emit('completed', {
        ...run.event(),
        ran: clock.monotonic() - run.startedAt,
        waited: run.job.startedAt - run.job.readyAt,
      })
    case 'retrying':
      if (failure !== undefined) events.emit('retrying', { ...run.event(), failure, delay })
      return
    case 'dead':
      if (failure !== undefined) events.emit('dead', { ...run.event(), failure })
      if (failure?.code === 'COMPENSATION_FAILED')
        events.emit('compensationFailed', { ...run.event(), failure })
      return
    case 'blocked': {
      const { until, signals = [] } = outcome.wait ?? { until: undefined }
      return events.emit('waiting', {
        ...run.event(),
        until: until === undefined ? undefined : new Date(until),
        keys: signals.map(({ key }) => key),
      })
    }
    case 'cancelled':
      return events.emit('cancelled', { ...run.event(), reason: outcome.reason ?? run.cancelled })
    default:
      if (outcome.hold > 0) events.emit('limited', { ...run.event(), key: run.job.key, delay: outcome.hold })
  }
}

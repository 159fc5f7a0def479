import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { isMillraceError, MillraceError } from '../core/errors.js'
import { type Advance, countMissed, planAdvance } from '../core/firing.js'
import type { DueSchedule, ScheduleResult } from '../core/schedule.js'
import { nextTurn } from '../system/turn.js'

interface Planned extends Advance {
  readonly schedule: DueSchedule
}

/** To work out slots takes a while; others get their turn in between. */
const turnMs = 10

/**
 * Fires schedules that a sweep found due: works out what each of them fires, and offers that to the store, which
 * takes it from the first worker that comes. One that cannot be worked out or written keeps no other back. Returns
 * how many have gone on, here or elsewhere.
 */
export async function fireSchedules(runtime: Runtime, due: readonly DueSchedule[]): Promise<number> {
  let batch: Planned[] = []
  let jobs = 0
  let gone = 0
  let turnEnds = performance.now() + turnMs
  for (const schedule of due) {
    const planned = plan(runtime, schedule)
    if (planned === undefined) continue
    batch.push(planned)
    jobs += planned.change.jobs.length
    if (jobs >= bounds.batch) {
      gone += await offer(runtime, batch)
      batch = []
      jobs = 0
    }
    if (performance.now() < turnEnds) continue
    await nextTurn()
    turnEnds = performance.now() + turnMs
  }
  return batch.length === 0 ? gone : gone + (await offer(runtime, batch))
}

function plan(runtime: Runtime, schedule: DueSchedule): Planned | undefined {
  try {
    return { schedule, ...planAdvance(schedule) }
  } catch (error) {
    tellFailed(runtime, schedule, error)
    return undefined
  }
}

async function offer(runtime: Runtime, batch: readonly Planned[]): Promise<number> {
  let results: ScheduleResult[]
  try {
    results = await runtime.store.schedule(batch.map(({ change }) => change))
  } catch (error) {
    // The store's trouble is the sweep's; anything else is that of one schedule, which fails alone.
    if (isMillraceError(error)) throw error
    return batch.length === 1 ? giveUp(runtime, batch, error) : offerEach(runtime, batch)
  }
  for (const [i, planned] of batch.entries()) if (results[i]?.status === 'applied') tell(runtime, planned)
  return batch.length
}

async function offerEach(runtime: Runtime, batch: readonly Planned[]): Promise<number> {
  let gone = 0
  for (const planned of batch) gone += await offer(runtime, [planned])
  return gone
}

function giveUp(runtime: Runtime, batch: readonly Planned[], error: unknown): number {
  for (const { schedule } of batch) tellFailed(runtime, schedule, error)
  return 0
}

function tell(runtime: Runtime, { schedule, change, missed, setBack }: Planned): void {
  const { events } = runtime
  if (setBack) tellFailed(runtime, schedule, clockSetBack(schedule, change.to))
  if (events.wants('enqueued')) {
    for (const { id, name, queue } of change.jobs)
      events.emit('enqueued', { id, name, queue, duplicate: false })
  }
  if (missed === undefined || !events.wants('missed')) return
  events.emit('missed', {
    schedule: schedule.name,
    count: countMissed(schedule, missed),
    since: new Date(missed.since),
  })
}

function tellFailed({ events }: Runtime, { name }: DueSchedule, error: unknown): void {
  events.emit('error', { error, during: `schedule '${name}'` })
}

function clockSetBack({ name, slot, since, now }: DueSchedule, to: number | undefined): MillraceError {
  const [stood, next] = [slot, to].map((time) => (time === undefined ? 'none' : iso(time)))
  return new MillraceError(
    'CLOCK_SET_BACK',
    `schedule '${name}' was told its next slot, ${stood}, at ${iso(since)}, and the store's clock is at ${iso(now)}: it was ahead then, or is behind now. The schedule goes on from now, next slot ${next}; see that the clock is right`,
    { field: 'clock', value: now },
  )
}

function iso(time: number): string {
  return new Date(time).toISOString()
}

import { bounds } from '../core/bounds.js'
import { parseInput } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import {
  type CatchUp,
  neverFires,
  nextSlot,
  planAdvance,
  readRule,
  readSpec,
  slotsLeft,
  triggeredJob,
} from '../core/firing.js'
import { integer, jobId, noUnknown } from '../core/options.js'
import { slotsAfter } from '../core/recurrence.js'
import type { ScheduleChange, ScheduleRecord, ScheduleResult } from '../core/schedule.js'
import { newId, newToken } from '../system/ids.js'
import type { Declarations } from './declare.js'
import type { Enqueuer } from './enqueue.js'
import type { JobHandle, PageOptions } from './inspect.js'
import type { Runtime } from './runtime.js'
import { checkSchedule, compileSchedule, type ScheduleOptions, scheduleName } from './schedule-options.js'

/** A schedule as it was at one moment, decoded. */
export interface ScheduleSnapshot {
  readonly name: string
  readonly cron: string | undefined
  readonly tz: string | undefined
  /** Milliseconds. */
  readonly every: number | undefined
  readonly from: Date | undefined
  readonly until: Date | undefined
  readonly limit: number | undefined
  readonly catchUp: CatchUp
  /** Milliseconds. */
  readonly jitter: number
  /** Name of the definition whose jobs it fires. */
  readonly job: string
  readonly queue: string
  readonly input: unknown
  readonly paused: boolean
  /** The slot that fires next, in the past when it is overdue; undefined while paused, and when none is left. */
  readonly next: Date | undefined
  /** The newest slot that fired, and the id of its job. */
  readonly last: Date | undefined
  readonly lastJob: string | undefined
  /** Slots that fired since it recurs as it does. */
  readonly fired: number
  readonly createdAt: Date
  readonly changedAt: Date
}

export interface ScheduleList {
  readonly schedules: readonly ScheduleSnapshot[]
  readonly cursor: string | undefined
}

/** A recurrence by name. It works for a schedule of any process; `R` is what its jobs return. */
export class ScheduleHandle<R = unknown> {
  readonly name: string
  readonly #schedules: Schedules

  constructor(name: string, schedules: Schedules) {
    this.name = scheduleName(name)
    this.#schedules = schedules
  }

  /** Everything known of it; undefined when there is none. */
  get(): Promise<ScheduleSnapshot | undefined> {
    return this.#schedules.get(this.name)
  }

  /** The times of its next slots, without jitter: fewer than `count` when it ends, none while it is paused. */
  next(count = 1): Promise<Date[]> {
    return this.#schedules.next(this.name, count)
  }

  /** Fires no more, for all processes, until `resume`. Slots that come meanwhile are dropped, whatever `catchUp`. */
  pause(): Promise<void> {
    return this.#schedules.pause(this.name, true)
  }

  resume(): Promise<void> {
    return this.#schedules.pause(this.name, false)
  }

  /**
   * Adds one job now, beside the slots, also while paused. An `id` that exists gives the job that stands. Like each
   * slot, each trigger has an idempotency key of its own.
   */
  trigger(options: { readonly id?: string } = {}): Promise<JobHandle<R>> {
    return this.#schedules.trigger<R>(this.name, options)
  }

  /** Returns whether there was one. Jobs that it has fired stay. */
  remove(): Promise<boolean> {
    return this.#schedules.remove(this.name)
  }
}

export class Schedules {
  readonly #runtime: Runtime
  readonly #enqueuer: Enqueuer
  readonly #declarations: Declarations

  constructor(runtime: Runtime, enqueuer: Enqueuer, declarations: Declarations) {
    this.#runtime = runtime
    this.#enqueuer = enqueuer
    this.#declarations = declarations
  }

  async put<I, O, R>(name: string, options: ScheduleOptions<I, O, R>): Promise<ScheduleHandle<R>> {
    const handle = new ScheduleHandle<R>(name, this)
    checkSchedule(options)
    const checked = parseInput(options.job, options.input)
    if (checked instanceof Promise) await checked
    const compiled = compileSchedule(this.#runtime, options)
    await this.#runtime.ready()
    const { job } = options
    if (job.traffic !== undefined && !this.#declarations.has(job)) await this.#declarations.add(job)
    const { record } = await this.#change({ do: 'put', name, ...compiled, revision: newToken() })
    if (record?.fresh) {
      await this.#tellFirstSlot(record)
      if (neverFires(record))
        this.#runtime.events.emit('error', { error: noSlot(record), during: `schedule '${name}'` })
    }
    return handle
  }

  async list(page: PageOptions = {}): Promise<ScheduleList> {
    const limit = integer(page.limit ?? 100, 'limit', 1, bounds.page)
    await this.#runtime.ready()
    const { schedules, cursor } = await this.#runtime.store.schedules({ limit, cursor: page.cursor })
    return { schedules: schedules.map((schedule) => this.#snapshot(schedule)), cursor }
  }

  async get(name: string): Promise<ScheduleSnapshot | undefined> {
    const record = await this.#read(name)
    return record && this.#snapshot(record)
  }

  async next(name: string, count: number): Promise<Date[]> {
    integer(count, 'count', 1, bounds.page)
    const record = await this.#find(name)
    const slot = nextSlot(record)
    if (slot === undefined) return []
    const most = Math.min(count, slotsLeft(record, readSpec(record)))
    const later = slotsAfter(readRule(record), slot, most - 1, Number.POSITIVE_INFINITY)
    return [slot, ...later].map((time) => new Date(time))
  }

  async pause(name: string, paused: boolean): Promise<void> {
    await this.#runtime.ready()
    const { record } = await this.#change({ do: 'pause', name, paused, revision: newToken() })
    if (record === undefined) throw notFound(name)
    if (record.fresh) await this.#tellFirstSlot(record)
  }

  async trigger<R>(name: string, options: { readonly id?: string }): Promise<JobHandle<R>> {
    noUnknown(options, ['id'], 'trigger')
    const id = options.id === undefined ? newId(this.#runtime.clock.now()) : jobId(options.id)
    return this.#enqueuer.add<R>(triggeredJob(readSpec(await this.#find(name)), id))
  }

  async remove(name: string): Promise<boolean> {
    await this.#runtime.ready()
    return (await this.#change({ do: 'remove', name })).status === 'applied'
  }

  /** So that it shows at once; a worker would do it too. */
  async #tellFirstSlot(record: ScheduleRecord): Promise<void> {
    await this.#change(planAdvance({ ...record, now: record.since }).change)
  }

  async #change(change: ScheduleChange): Promise<ScheduleResult> {
    const [result] = await this.#runtime.store.schedule([change])
    return result as ScheduleResult
  }

  async #find(name: string): Promise<ScheduleRecord> {
    const record = await this.#read(name)
    if (record === undefined) throw notFound(name)
    return record
  }

  async #read(name: string): Promise<ScheduleRecord | undefined> {
    await this.#runtime.ready()
    const { schedules } = await this.#runtime.store.schedules({ names: [name], limit: 1 })
    return schedules[0]
  }

  #snapshot(record: ScheduleRecord): ScheduleSnapshot {
    const { cron, tz, every, from, until } = readRule(record)
    const { catchUp, jitter, limit, job } = readSpec(record)
    return {
      name: record.name,
      cron,
      tz,
      every,
      from: date(from),
      until: date(until),
      limit,
      catchUp,
      jitter,
      job: job.name,
      queue: job.queue,
      input: this.#decode(job.input),
      paused: record.paused,
      next: date(nextSlot(record)),
      last: date(record.lastSlot),
      lastJob: record.lastJob,
      fired: record.fired,
      createdAt: new Date(record.createdAt),
      changedAt: new Date(record.changedAt),
    }
  }

  /** A damaged input is shown as the text it is. */
  #decode(text: string): unknown {
    try {
      return this.#runtime.codec.decode(text)
    } catch {
      return text
    }
  }
}

function date(time: number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time)
}

/**
 * Told, not refused: the code that puts it was right until that time came, and runs on in a store where the schedule
 * is new.
 */
function noSlot(record: ScheduleRecord): MillraceError {
  const until = date(readRule(record).until)
  return new MillraceError(
    'INVALID_OPTION',
    `schedule '${record.name}' never fires: it has no slot from now until ${until?.toISOString()}; give it a later \`until\`, or remove it`,
    { field: 'until', value: until },
  )
}

function notFound(name: string): MillraceError {
  return new MillraceError(
    'SCHEDULE_NOT_FOUND',
    `there is no schedule '${name}'; make it with mill.schedule(name, options)`,
    { field: 'schedule', value: name },
  )
}

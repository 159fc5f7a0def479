import { bounds } from '../core/bounds.js'
import { checkDefinition, type EnqueueOptions, type JobDefinition } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { type CatchUp, catchUps, type ScheduledJob, type ScheduleSpec } from '../core/firing.js'
import { integer, invalid, name, noUnknown, noUnknownIn, oneOf } from '../core/options.js'
import { compileRecurrence, type RecurrenceOptions } from '../core/recurrence.js'
import { encodeInput, enqueueOptions, newJob } from './new-job.js'
import { placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** Of the jobs that a schedule fires. Their ids and times come from its slots. */
export type ScheduledJobOptions = Omit<EnqueueOptions, 'id' | 'delay' | 'runAt' | 'signal'>

/** When it recurs, by `cron` or by `every`, and what it fires. */
export type ScheduleOptions<I = unknown, O = I, R = unknown> = RecurrenceOptions & FiringOptions<I, O, R>

export interface FiringOptions<I = unknown, O = I, R = unknown> {
  /**
   * What each slot fires. To keep two of its jobs from running at the same time, give it a `limit`; to fire none
   * while one is there, a `dedupe`.
   */
  readonly job: JobDefinition<I, O, R>
  readonly input: NoInfer<I>
  /**
   * Which slots fire that were missed because no worker ran. `last`: the newest of them, so that what the schedule
   * is for gets done, once. `all`: each of them, one after the other. `skip`: none, unless it is at most a minute
   * late. @default 'last'
   */
  readonly catchUp?: CatchUp
  /** Each slot's job starts later by less than this, always the same for the same slot. @default 0 */
  readonly jitter?: Duration
  /** The most slots that fire. @default no limit */
  readonly limit?: number
  readonly options?: ScheduledJobOptions
}

const scheduleOptions = [
  'cron',
  'every',
  'tz',
  'job',
  'input',
  'catchUp',
  'jitter',
  'from',
  'until',
  'limit',
  'options',
] as const satisfies readonly (keyof ScheduleOptions)[]

const jobOptions = enqueueOptions.filter(
  (option) => !['id', 'delay', 'runAt', 'signal', 'tx'].includes(option),
)

/** The same text for the same options: what is stored already is not written again. */
export interface CompiledSchedule {
  readonly rule: string
  readonly spec: string
}

export function scheduleName(value: string): string {
  name(value, 'schedule')
  if (value.length > bounds.scheduleName)
    throw invalid('schedule', value, `at most ${bounds.scheduleName} characters`, bounds.scheduleName)
  return value
}

/** Its input has been accepted by the schema. */
export function compileSchedule<I, O, R>(
  runtime: Runtime,
  options: ScheduleOptions<I, O, R>,
): CompiledSchedule {
  const jitter = milliseconds(options.jitter ?? 0, 'jitter')
  const spec: ScheduleSpec = {
    catchUp: oneOf(options.catchUp ?? 'last', catchUps, 'catchUp'),
    jitter,
    limit: options.limit === undefined ? undefined : integer(options.limit, 'limit', 1, 2 ** 31),
    job: scheduledJob(runtime, options, jitter),
  }
  return { rule: JSON.stringify(compileRecurrence(options)), spec: JSON.stringify(spec) }
}

export function checkSchedule<I, O, R>(options: ScheduleOptions<I, O, R>): void {
  noUnknown(options, scheduleOptions, 'schedule')
  checkDefinition(options.job)
  if (options.options !== undefined) noUnknownIn('options', options.options, jobOptions)
}

function scheduledJob<I, O, R>(
  runtime: Runtime,
  { job, input, options }: ScheduleOptions<I, O, R>,
  jitter: number,
): ScheduledJob {
  // Jitter is a `runAt` of each slot's job; not every job may have one.
  const asked = jitter > 0 ? { ...options, runAt: 0 } : options
  const place = placement(job, input, asked)
  const {
    id: _id,
    delay: _delay,
    runAt: _runAt,
    family: _family,
    ...common
  } = newJob(runtime, job, encodeInput(runtime, input), place, options)
  return common
}

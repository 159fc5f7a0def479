import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import type { AnyJob, EnqueueOptions } from '../core/definition.js'
import { milliseconds } from '../core/duration.js'
import { MillraceError, show } from '../core/errors.js'
import { checkTtl } from '../core/idempotency.js'
import type { NewJob } from '../core/job.js'
import {
  compileBackoff,
  compileRetain,
  integer,
  invalid,
  jobId,
  lane,
  name,
  noUnknown,
  type PolicyOverrides,
  tags,
} from '../core/options.js'
import { newId } from '../system/ids.js'
import type { Placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** What it takes to make a job. */
export type Maker = Pick<Runtime, 'codec' | 'clock' | 'limits'>

/** The text of an input that its schema has accepted. */
export function encodeInput(runtime: Maker, input: unknown): string {
  return runtime.codec.encode(input, 'input', runtime.limits.payload)
}

/** What a store needs to know of a job. */
export function newJob(
  runtime: Maker,
  job: AnyJob,
  input: string,
  place: Placement | undefined,
  options: EnqueueOptions | undefined,
  id?: string,
): NewJob {
  if (options === undefined) return plainJob(runtime, job, input, place, id)
  const { policy } = job
  noUnknown(options, enqueueOptions, 'enqueue')
  if (options.delay !== undefined && options.runAt !== undefined) {
    throw invalid('runAt', options.runAt, 'either delay or runAt, not both')
  }
  if (job.unwinds === true) refuseAttempts(job, options)
  const own = overrides(job, options)
  const maxAttempts = integer(options.maxAttempts ?? policy.maxAttempts, 'maxAttempts', 1, bounds.attempts)
  const maxCrashes = integer(options.maxCrashes ?? policy.maxCrashes, 'maxCrashes', 1, bounds.attempts)
  if (place?.guard !== undefined) checkTtl(place.guard.retain, { ...policy, ...own, maxAttempts, maxCrashes })
  return {
    id: options.id === undefined ? (id ?? newId(runtime.clock.now())) : jobId(options.id),
    name: job.name,
    queue: options.queue === undefined ? policy.queue : name(options.queue, 'queue'),
    lane: options.priority === undefined ? policy.lane : lane(options.priority),
    input,
    delay: options.delay === undefined ? 0 : milliseconds(options.delay, 'delay'),
    runAt: options.runAt === undefined ? undefined : epoch(options.runAt, runtime.clock.now()),
    maxAttempts,
    maxCrashes,
    overrides: overridesText(own),
    tags: options.tags === undefined ? undefined : tags(options.tags),
    metadata:
      options.metadata === undefined
        ? undefined
        : jsonCodec.encode(options.metadata, 'metadata', bounds.metadataBytes),
    traffic: place?.traffic,
    dedupe: place?.dedupe,
    family: undefined,
    guard: place?.guard,
    search: place?.search,
    unwinds: job.unwinds,
    fresh: options.id === undefined && id === undefined,
  }
}

/** What is known of a definition, even where it is not at hand. */
export interface PlainKind extends Pick<AnyJob, 'name' | 'evolution' | 'unwinds'> {
  readonly policy: Pick<AnyJob['policy'], 'queue' | 'lane' | 'maxAttempts' | 'maxCrashes'>
}

/** As its definition says, and nothing else. */
export function plainJob(
  runtime: Maker,
  { name, policy, evolution, unwinds }: PlainKind,
  input: string,
  place: Placement | undefined,
  id?: string,
): NewJob {
  return {
    id: id ?? newId(runtime.clock.now()),
    name,
    queue: policy.queue,
    lane: policy.lane,
    input,
    delay: 0,
    runAt: undefined,
    maxAttempts: policy.maxAttempts,
    maxCrashes: policy.maxCrashes,
    overrides: evolution === undefined ? undefined : overridesText({ version: evolution.version }),
    tags: undefined,
    metadata: undefined,
    traffic: place?.traffic,
    dedupe: place?.dedupe,
    family: undefined,
    guard: place?.guard,
    search: place?.search,
    unwinds,
    fresh: id === undefined,
  }
}

/** A saga counts its own attempts, and has to outlive them to undo what it did. */
function refuseAttempts({ name, policy }: AnyJob, { maxAttempts, maxCrashes }: EnqueueOptions): void {
  if (maxAttempts !== undefined)
    throw invalid('maxAttempts', maxAttempts, `none, because job '${name}' is a saga; set it with defineSaga`)
  if (maxCrashes !== undefined && maxCrashes < policy.maxCrashes)
    throw invalid('maxCrashes', maxCrashes, `at least ${policy.maxCrashes}, because job '${name}' is a saga`)
}

export const enqueueOptions = [
  'id',
  'group',
  'key',
  'dedupe',
  'signal',
  'queue',
  'priority',
  'delay',
  'runAt',
  'maxAttempts',
  'maxCrashes',
  'backoff',
  'timeout',
  'retain',
  'tags',
  'metadata',
  'tx',
]

function epoch(value: Date | number, now: number): number {
  const time = value instanceof Date ? value.getTime() : value
  if (typeof time !== 'number' || !(time >= 0 && time <= now + bounds.delay)) {
    throw new MillraceError(
      'INVALID_DELAY',
      `runAt is ${show(value)}; expected a valid Date or epoch milliseconds, at most 10 years from now`,
      { field: 'runAt', value, limit: now + bounds.delay },
    )
  }
  return Math.round(time)
}

/** The policy that this one job carries with it, and the form of its input. */
export function overrides(
  { evolution }: Pick<AnyJob, 'evolution'>,
  { backoff, timeout, retain }: Pick<EnqueueOptions, 'backoff' | 'timeout' | 'retain'>,
): PolicyOverrides {
  if (backoff !== undefined && (backoff as { type?: string }).type === 'custom') {
    throw invalid('backoff', backoff, 'a serialisable backoff; set a custom function on the definition')
  }
  return {
    ...(timeout !== undefined && { timeout: milliseconds(timeout, 'timeout') }),
    ...(backoff !== undefined && { backoff: compileBackoff(backoff) }),
    ...(retain !== undefined && { retain: compileRetain(retain) }),
    ...(evolution !== undefined && { version: evolution.version }),
  }
}

/** Undefined for a job that follows its definition. */
export function overridesText(own: PolicyOverrides): string | undefined {
  return Object.keys(own).length === 0 ? undefined : JSON.stringify(own)
}

/**
 * Few errors, told apart by `code`. Each sentence names the field, the value and the limit, and the way out.
 * `isMillraceError` works across realms and duplicate installs, where `instanceof` does not.
 */

export type ErrorCode =
  | 'INVALID_OPTION'
  | 'INVALID_DELAY'
  | 'INVALID_INPUT'
  | 'INVALID_OUTCOME'
  | 'PAYLOAD_TOO_LARGE'
  | 'PAYLOAD_NOT_SERIALISABLE'
  | 'JOB_NOT_FOUND'
  | 'SCHEDULE_NOT_FOUND'
  | 'CLOCK_SET_BACK'
  | 'JOB_NOT_FINISHED'
  | 'JOB_DEAD'
  | 'JOB_CANCELLED'
  | 'JOB_TIMEOUT'
  | 'JOB_CRASHED'
  | 'SANDBOX_CRASHED'
  | 'HANDLER_MISSING'
  | 'CHILD_FAILED'
  | 'COMPENSATED'
  | 'FLOW_INCOMPLETE'
  | 'FLOW_DONE'
  | 'FLOW_TAKEN'
  | 'LEASE_LOST'
  | 'WAIT_TIMEOUT'
  | 'UPGRADE_FAILED'
  | 'IDEMPOTENCY_BUSY'
  | 'TOO_MANY_STEPS'
  | 'SAGA_COMPENSATED'
  | 'COMPENSATION_FAILED'
  | 'NON_RETRYABLE'
  | 'RETRY_AFTER'
  | 'SHUTDOWN'
  | 'CLOSED'
  | 'QUEUE_FULL'
  | 'DROPPED'
  | 'BROKER_UNAVAILABLE'
  | 'PUBLISH_REFUSED'
  | 'PUBLISH_FAILED'
  | 'DRIVER_MISSING'
  | 'STORE_UNAVAILABLE'
  | 'STORE_BUSY'
  | 'STORE_FULL'
  | 'STORE_REFUSED'
  | 'STORE_CORRUPT'
  | 'STORE_FAILED'
  | 'WRONG_VERSION'
  | 'EVENTS_MISSING'
  | 'EVENT_UNKNOWN'

const brand = Symbol.for('millrace.error')

export interface ErrorDetails {
  /** The option or path that is wrong, such as `backoff.maxDelay` or `$.user.avatar`. */
  readonly field?: string | undefined
  readonly value?: unknown
  readonly limit?: unknown
  readonly cause?: unknown
}

export class MillraceError extends Error {
  readonly code: ErrorCode
  readonly field: string | undefined
  readonly value: unknown
  readonly limit: unknown

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.name = 'MillraceError'
    this.code = code
    this.field = details.field
    this.value = details.value
    this.limit = details.limit
  }

  get [brand](): true {
    return true
  }
}

export function isMillraceError(error: unknown, code?: ErrorCode): error is MillraceError {
  if (typeof error !== 'object' || error === null || !(brand in error)) return false
  return code === undefined || (error as MillraceError).code === code
}

/** Thrown by a handler: trying again cannot help, so the job dies now. */
export class NonRetryableError extends MillraceError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('NON_RETRYABLE', message, details)
    this.name = 'NonRetryableError'
  }
}

const permanent: readonly ErrorCode[] = [
  'NON_RETRYABLE',
  'INVALID_INPUT',
  'UPGRADE_FAILED',
  'STORE_CORRUPT',
  'PAYLOAD_NOT_SERIALISABLE',
  'PAYLOAD_TOO_LARGE',
  'HANDLER_MISSING',
  'CHILD_FAILED',
  'TOO_MANY_STEPS',
  'COMPENSATION_FAILED',
]

/** Whoever threw it, trying again cannot help. */
export function isPermanent(error: unknown): boolean {
  return isMillraceError(error) && permanent.includes(error.code)
}

/** Thrown by a handler: try again after `delay`, whatever the backoff says. Spends an attempt. */
export class RetryAfter extends MillraceError {
  readonly delay: number | string

  constructor(delay: number | string, message = `retry after ${delay}`, details: ErrorDetails = {}) {
    super('RETRY_AFTER', message, details)
    this.name = 'RetryAfter'
    this.delay = delay
  }
}

export interface QueueFullDetails {
  readonly queue: string
  /** What the queue holds, in the unit of its limit: items, jobs or bytes. */
  readonly depth: number
  readonly limit: number
  /** Milliseconds after which another try makes sense. */
  readonly retryAfter: number
  /** Jobs of the same call that were added before it was full. @default 0 */
  readonly added?: number
}

/**
 * A queue that has a limit refused more. Over HTTP: 429, with `retryAfter` in whole seconds as Retry-After. Its
 * `cause` is the reason of the signal that ended a wait for room.
 */
export class QueueFullError extends MillraceError {
  readonly queue: string
  readonly depth: number
  declare readonly limit: number
  readonly retryAfter: number
  /** Jobs of the same call that were added before it was full. */
  readonly added: number

  constructor({ queue, depth, limit, retryAfter, added = 0 }: QueueFullDetails, details: ErrorDetails = {}) {
    const so = added > 0 ? ` (the first ${added} of this call were added)` : ''
    const message = `queue '${queue}' is full: it holds ${depth} and its limit is ${limit}${so}; try again in ${retryAfter} ms, or raise the limit`
    super('QUEUE_FULL', message, { ...details, limit })
    this.name = 'QueueFullError'
    this.queue = queue
    this.depth = depth
    this.retryAfter = retryAfter
    this.added = added
  }
}

/** A guess: nobody knows how fast a queue is worked off. */
const retryAfterMs = 1_000

/** `added`: how many of the same call were added before. */
export function queueFull(
  queue: string,
  { depth, limit }: { readonly depth: number; readonly limit: number },
  added = 0,
  details: ErrorDetails = {},
): QueueFullError {
  return new QueueFullError({ queue, depth, limit, retryAfter: retryAfterMs, added }, details)
}

/** Shows a refused value in an error message without printing a novel or a secret-sized blob. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}…` : value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) {
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString()
    if (!Array.isArray(value)) return 'an object'
    return value.length === 0 ? '[]' : `an array of ${value.length}`
  }
  return String(value)
}

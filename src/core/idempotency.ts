import { backoffDelay, type CompiledBackoff } from './backoff.js'
import { bounds } from './bounds.js'
import { type Duration, milliseconds } from './duration.js'
import { MillraceError, show } from './errors.js'
import { type CompiledPolicy, defaults, invalid, noUnknownIn } from './options.js'

/** Jobs with the same key take effect once: the first to complete stores its result, and the others get that. */
export interface IdempotencyOptions<Input> {
  /** What must not be done twice: an order, a payment. Fixed when the job is enqueued. */
  readonly key: (input: Input) => string | number
  /**
   * How long the result is kept after the job has completed. At least as long as the job can be retried.
   * @default '7d', or as long as the job can be retried if that is longer
   */
  readonly ttl?: Duration
}

export interface CompiledIdempotency {
  readonly key: (input: unknown) => string | number
  readonly ttl: number
}

export const defaultTtl = '7d'

export function compileIdempotency(
  raw: IdempotencyOptions<never> | undefined,
  policy: CompiledPolicy,
): CompiledIdempotency | undefined {
  if (raw === undefined) return undefined
  noUnknownIn('idempotency', raw, ['key', 'ttl'])
  const { key } = raw
  if (typeof key !== 'function') throw invalid('idempotency.key', key, 'a function (input) => key')
  const least = retryWindow(policy)
  const ttl =
    raw.ttl === undefined
      ? Math.max(milliseconds(defaultTtl, 'idempotency.ttl'), least)
      : milliseconds(raw.ttl, 'idempotency.ttl')
  refuseShortTtl(ttl, least, raw.ttl)
  return { key: key as CompiledIdempotency['key'], ttl }
}

/** One job may be given a policy that lets it go on for longer than its definition's. */
export function checkTtl(ttl: number, policy: RetryPolicy): void {
  refuseShortTtl(ttl, retryWindow(policy), ttl)
}

function refuseShortTtl(ttl: number, least: number, given: unknown): void {
  if (ttl >= least) return
  throw new MillraceError(
    'INVALID_OPTION',
    `idempotency.ttl is ${show(given)}; expected at least ${least} ms, because the job can be retried for that long: raise it, or allow fewer or shorter attempts`,
    { field: 'idempotency.ttl', value: given, limit: least },
  )
}

type RetryPolicy = Pick<CompiledPolicy, 'maxAttempts' | 'maxCrashes' | 'timeout' | 'backoff'>

/**
 * The longest time from the first start of a job to the end of its last attempt: each runs into its timeout, each
 * wait is as long as the backoff allows, and each crash is found out by a lease that ends. What an error asks for
 * with `RetryAfter`, and what a handler puts off, comes on top and is not known here.
 */
export function retryWindow({ maxAttempts, maxCrashes, timeout, backoff }: RetryPolicy): number {
  if (timeout === 0) {
    throw new MillraceError(
      'INVALID_OPTION',
      "timeout is 0 and idempotency is set; expected a timeout such as '1h', because no ttl outlasts an attempt that may run for ever",
      { field: 'timeout', value: timeout },
    )
  }
  // A crash spends an attempt, and a job on its last attempt gets another for it.
  const crashes = maxCrashes - 1
  const lease = milliseconds(defaults.lease, 'lease')
  const running = (maxAttempts + crashes) * timeout
  return Math.min(bounds.delay, running + longestDelays(backoff, maxAttempts - 1) + crashes * lease)
}

function longestDelays(backoff: CompiledBackoff, count: number): number {
  if (backoff.type === 'custom') return count * backoff.maxDelay
  let sum = 0
  let previous = 0
  for (let attempt = 1; attempt <= count; attempt++) {
    previous = backoffDelay(backoff, { attempt, previous, error: undefined }, longest)
    sum += previous
  }
  return sum
}

const longest = () => 1

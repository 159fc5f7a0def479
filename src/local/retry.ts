import {
  type BackoffOptions,
  backoffDelay,
  type CompiledBackoff,
  type CustomBackoff,
} from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import { milliseconds } from '../core/duration.js'
import { isMillraceError, type RetryAfter } from '../core/errors.js'
import { compileBackoff, defaults, integer, noUnknownIn } from '../core/options.js'

export interface FlushRetryOptions {
  /** How often it is tried in all. @default 3 */
  readonly attempts?: number
  /** @default exponential from '1s' to '5m', with full jitter */
  readonly backoff?: BackoffOptions | CustomBackoff
}

export interface CompiledRetry {
  readonly attempts: number
  readonly backoff: CompiledBackoff
}

export function compileRetry(raw: FlushRetryOptions): CompiledRetry {
  noUnknownIn('retry', raw, ['attempts', 'backoff'])
  return {
    attempts: integer(raw.attempts ?? defaults.maxAttempts, 'retry.attempts', 1, bounds.attempts),
    backoff: compileBackoff(raw.backoff ?? {}),
  }
}

/** Calls until it succeeds, or throws the last error. No further attempt begins once the signal has aborted. */
export async function withRetries(
  call: (attempt: number) => unknown,
  retry: CompiledRetry,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let previous = 0
  for (let attempt = 1; ; attempt++) {
    try {
      await call(attempt)
      return
    } catch (error) {
      if (attempt >= retry.attempts || isMillraceError(error, 'NON_RETRYABLE')) throw error
      previous = delayAfter(error, retry.backoff, attempt, previous)
      await sleep(previous, clock, signal)
      if (signal.aborted) throw error
    }
  }
}

/** A delay that cannot be read is the longest: a fault in the caller's own function must not end the attempts. */
function delayAfter(error: unknown, backoff: CompiledBackoff, attempt: number, previous: number): number {
  try {
    if (isMillraceError(error, 'RETRY_AFTER')) return milliseconds((error as RetryAfter).delay, 'retryAfter')
    return backoffDelay(backoff, { attempt, previous, error }, Math.random)
  } catch {
    return backoff.maxDelay
  }
}

function sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const wake = () => {
      cancel()
      signal.removeEventListener('abort', wake)
      resolve()
    }
    const cancel = clock.after(ms, wake)
    signal.addEventListener('abort', wake)
  })
}

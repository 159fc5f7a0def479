import type { Duration } from './duration.js'

export type Jitter = 'none' | 'full' | 'equal' | number

/** Serialisable, so that a single job can carry its own. */
export interface BackoffOptions {
  /** @default 'exponential' */
  readonly type?: 'fixed' | 'linear' | 'exponential' | 'polynomial' | 'decorrelated'
  /** @default '1s' */
  readonly initialDelay?: Duration
  /** No delay is longer. @default '5m' */
  readonly maxDelay?: Duration
  /** Multiplier of `exponential`, exponent of `polynomial`. @default 2 */
  readonly factor?: number
  /** `full` picks from 0 to the delay, `equal` from its upper half, a number is ± that percentage. @default 'full' */
  readonly jitter?: Jitter
}

/** The delay before the next attempt; `attempt` is the one that just failed. Capped by `maxDelay`. */
export interface CustomBackoff {
  readonly type: 'custom'
  readonly delay: (attempt: number, error: unknown) => Duration
  /** @default '5m' */
  readonly maxDelay?: Duration
}

/** Checked and in milliseconds. */
export interface CompiledBackoff {
  readonly type: 'fixed' | 'linear' | 'exponential' | 'polynomial' | 'decorrelated' | 'custom'
  readonly initialDelay: number
  readonly maxDelay: number
  readonly factor: number
  readonly jitter: Jitter
  readonly custom: ((attempt: number, error: unknown) => number) | undefined
}

export interface BackoffState {
  /** The attempt that just failed, from 1. */
  readonly attempt: number
  /** The delay before that attempt; 0 for the first. */
  readonly previous: number
  readonly error: unknown
}

/** Whole milliseconds until the next attempt. */
export function backoffDelay(backoff: CompiledBackoff, state: BackoffState, random: () => number): number {
  const base = baseDelay(backoff, state, random)
  const capped = Math.min(base, backoff.maxDelay)
  const own = backoff.type === 'decorrelated' || backoff.type === 'custom'
  return Math.round(Math.min(own ? capped : withJitter(capped, backoff.jitter, random), backoff.maxDelay))
}

function baseDelay(
  backoff: CompiledBackoff,
  { attempt, previous, error }: BackoffState,
  random: () => number,
): number {
  const { initialDelay, factor } = backoff
  switch (backoff.type) {
    case 'fixed':
      return initialDelay
    case 'linear':
      return initialDelay * attempt
    case 'exponential':
      return initialDelay * factor ** (attempt - 1)
    case 'polynomial':
      return initialDelay * attempt ** factor
    case 'decorrelated':
      return initialDelay + random() * Math.max(0, Math.max(previous, initialDelay) * 3 - initialDelay)
    case 'custom':
      return backoff.custom?.(attempt, error) ?? initialDelay
  }
}

function withJitter(delay: number, jitter: Jitter, random: () => number): number {
  if (jitter === 'none') return delay
  if (jitter === 'full') return random() * delay
  if (jitter === 'equal') return delay / 2 + random() * (delay / 2)
  return delay * (1 + (random() * 2 - 1) * (jitter / 100))
}

import { setTimeout as sleep } from 'node:timers/promises'

/** What the errors of a server mean for whoever asked it. */
export interface Judge {
  readonly isTransient: (error: unknown) => boolean
  /** For an error that another attempt would not mend. */
  readonly storeError: (error: unknown) => unknown
  /** For one that no attempt mended in `waited` milliseconds. */
  readonly gaveUp: (error: unknown, waited: number) => unknown
  readonly closed: () => unknown
}

export type Retrying = <T>(
  patience: number,
  closing: AbortSignal,
  work: (left: number) => Promise<T>,
) => Promise<T>

/** Tries again, later and later, until it works, fails for good, or `patience` is over. `work` hears what is left of it. */
export function makeRetrying({ isTransient, storeError, gaveUp, closed }: Judge): Retrying {
  return async (patience, closing, work) => {
    const start = performance.now()
    for (let failures = 0; ; failures++) {
      if (closing.aborted) throw closed()
      const left = patience - (performance.now() - start)
      try {
        return await work(patience === 0 ? Number.POSITIVE_INFINITY : Math.max(left, leastMs))
      } catch (error) {
        if (closing.aborted) throw closed()
        if (!isTransient(error)) throw storeError(error)
        const waited = performance.now() - start
        if (waited >= patience) throw gaveUp(error, waited)
        await pause(Math.min(backoff(failures), patience - waited), closing)
      }
    }
  }
}

/** Even the last attempt deserves a chance. */
const leastMs = 1_000

/** Exponential with full jitter: those who failed together do not come back together. */
export function backoff(failures: number): number {
  return Math.random() * Math.min(longestMs, firstMs * 2 ** failures)
}

const firstMs = 25
const longestMs = 1_000

async function pause(ms: number, closing: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal: closing }).catch(() => {})
}

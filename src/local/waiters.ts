interface Waiter {
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** Callers that wait for the same moment. */
export class Waiters {
  readonly #waiters = new Set<Waiter>()

  wait(signal?: AbortSignal): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      const end = () => {
        this.#waiters.delete(waiter)
        signal?.removeEventListener('abort', aborted)
      }
      const aborted = () => waiter.reject(signal?.reason)
      const waiter = {
        resolve: () => {
          end()
          resolve()
        },
        reject: (reason: unknown) => {
          end()
          reject(reason)
        },
      }
      this.#waiters.add(waiter)
      signal?.addEventListener('abort', aborted)
      if (signal?.aborted) aborted()
    })
    return quiet(promise)
  }

  resolve(): void {
    for (const waiter of this.#waiters) waiter.resolve()
  }

  reject(reason: unknown): void {
    for (const waiter of this.#waiters) waiter.reject(reason)
  }
}

/** A caller that does not look at this promise must not end the process when it rejects. */
export function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

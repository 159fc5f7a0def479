/** Rejects when the signal aborts; what comes of the work then is nobody's business any more. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const over = () => signal.removeEventListener('abort', stop)
    work.then(resolve, reject).then(over, over)
  })
}

/** Rejects with what `late` makes when the work takes longer. */
export function within<T>(ms: number, work: Promise<T>, late: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    const over = () => clearTimeout(timer)
    work.then(resolve, reject).then(over, over)
  })
}

/**
 * Calls `fn` so that its fault is its own: the caller goes on, and the error surfaces as an uncaught one. For
 * callbacks that share a loop, or that are told of something that has happened already.
 */
export function attempt<T>(fn: (arg: T) => void, arg: T): void {
  try {
    fn(arg)
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}

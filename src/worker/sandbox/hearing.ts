/** A child whose event loop turns hears within milliseconds; one that has yet to start takes some hundred. */
const hearMs = 500

/**
 * Calls `deaf` unless the function that it returns is called before. In real time, whatever clock the worker
 * has: a child knows no other.
 */
export function awaitHearing(deaf: () => void): () => void {
  let look: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    // When it was this event loop that was blocked, the answer has come and is read before the next immediate.
    look = setImmediate(deaf)
  }, hearMs).unref()
  return () => {
    clearTimeout(timer)
    clearImmediate(look)
  }
}

/**
 * One listener for the whole process, however many workers there are. The first SIGTERM or SIGINT drains,
 * the second forces. When all has drained and nobody else listens, the signal takes its usual course.
 */
type Drain = (force: boolean) => Promise<void>

const drains = new Set<Drain>()
const watched = ['SIGTERM', 'SIGINT'] as const
let received = 0
let firstAt = 0
/** A terminal and the package manager may each deliver the same Ctrl-C; only a later one is a second thought. */
const sameMs = 400

export function onShutdown(drain: Drain): () => void {
  // First in line, to see who else listens before listeners that fire once are gone.
  if (drains.size === 0) for (const signal of watched) process.prependListener(signal, receive)
  drains.add(drain)
  return () => {
    drains.delete(drain)
    if (drains.size === 0 && received === 0) for (const signal of watched) process.off(signal, receive)
  }
}

function receive(signal: NodeJS.Signals): void {
  const now = performance.now()
  if (received > 0 && now - firstAt < sameMs) return
  if (received === 0) firstAt = now
  const othersListen = process.listenerCount(signal) > 1
  const force = ++received > 1
  void Promise.allSettled([...drains].map((drain) => drain(force))).then(() => {
    for (const name of watched) process.off(name, receive)
    received = 0
    if (!othersListen) process.kill(process.pid, signal)
  })
}

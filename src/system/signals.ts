/**
 * One listener for the whole process, however many workers there are. The first SIGTERM or SIGINT drains,
 * the second forces. When all has drained and nobody else listens, the signal takes its usual course.
 */
type Drain = (force: boolean) => Promise<void>

const drains = new Set<Drain>()
const watched = ['SIGTERM', 'SIGINT'] as const
let received = 0

export function onShutdown(drain: Drain): () => void {
  if (drains.size === 0) for (const signal of watched) process.on(signal, receive)
  drains.add(drain)
  return () => {
    drains.delete(drain)
    if (drains.size === 0 && received === 0) for (const signal of watched) process.off(signal, receive)
  }
}

function receive(signal: NodeJS.Signals): void {
  received++
  const force = received > 1
  void Promise.allSettled([...drains].map((drain) => drain(force))).then(() => {
    for (const name of watched) process.off(name, receive)
    received = 0
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
  })
}

import type { Signal } from '../core/store.js'
import type { Runtime } from './runtime.js'

/** How often a full queue is looked at when no signal comes. */
const lookEveryMs = 250
/** Callers that go on together once there is room. */
const together = 100

interface Waiter {
  readonly go: () => void
}

/** Callers that wait for room in a full queue. One goes first; when it is let in, others follow. */
export class Rooms {
  readonly #runtime: Runtime
  readonly #queues = new Map<string, Set<Waiter>>()
  #unsubscribe: (() => void) | undefined
  #cancelLook: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Resolves when it is worth another try; rejects with the signal's reason. */
  wait(queue: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const leave = () => {
        waiters.delete(waiter)
        signal?.removeEventListener('abort', aborted)
      }
      const waiter: Waiter = {
        go: () => {
          leave()
          resolve()
        },
      }
      const aborted = () => {
        leave()
        reject(signal?.reason)
      }
      const waiters = this.#queues.get(queue) ?? new Set()
      this.#queues.set(queue, waiters)
      waiters.add(waiter)
      signal?.addEventListener('abort', aborted, { once: true })
      this.#start()
    })
  }

  /** Somebody was let in. */
  opened(queue: string): void {
    this.#letGo(queue, together)
  }

  /** All try once more: the store is closed and says so. */
  close(): void {
    this.#stop()
    for (const queue of this.#queues.keys()) this.#letGo(queue, Number.POSITIVE_INFINITY)
  }

  #letGo(queue: string, count: number): void {
    const waiters = [...(this.#queues.get(queue) ?? [])]
    for (const waiter of waiters.slice(0, count)) waiter.go()
  }

  #start(): void {
    if (this.#unsubscribe !== undefined) return
    this.#unsubscribe = this.#runtime.store.subscribe((signal) => this.#heard(signal))
    this.#look()
  }

  #stop(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#cancelLook?.()
  }

  #heard(signal: Signal): void {
    if (signal.type === 'claimed')
      for (const queue of new Set(signal.jobs.map((job) => job.queue))) this.#letGo(queue, 1)
    if (signal.type === 'changed') for (const queue of this.#queues.keys()) this.#letGo(queue, 1)
  }

  #look(): void {
    this.#cancelLook = this.#runtime.clock.after(lookEveryMs, () => {
      for (const queue of this.#queues.keys()) this.#letGo(queue, 1)
      if ([...this.#queues.values()].every((waiters) => waiters.size === 0)) this.#stop()
      else this.#look()
    })
  }
}

import type { Runtime } from './runtime.js'

/** How often a watched job is looked at when no signal comes: polling is what correctness rests on. */
const pollMs = 1_000

/** Tells who waits for a job that it may have changed. */
export class Watcher {
  readonly #runtime: Runtime
  readonly #watched = new Map<string, Set<() => void>>()
  #unsubscribe: (() => void) | undefined
  #cancelPoll: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Calls `look` when the job may have changed, until the returned function is called. */
  watch(id: string, look: () => void): () => void {
    const looks = this.#watched.get(id) ?? new Set()
    this.#watched.set(id, looks)
    looks.add(look)
    if (this.#unsubscribe === undefined) this.#start()
    return () => {
      looks.delete(look)
      if (looks.size === 0 && this.#watched.get(id) === looks) this.#watched.delete(id)
      if (this.#watched.size === 0) this.stop()
    }
  }

  /** The last look: whoever still waits learns that there is nothing to wait for. */
  close(): void {
    this.#lookAtAll()
    this.stop()
  }

  stop(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#cancelPoll?.()
  }

  #start(): void {
    this.#unsubscribe = this.#runtime.store.subscribe((signal) => {
      if (signal.type === 'settled') for (const { id } of signal.settlements) this.#look(id)
      if (signal.type === 'claimed') for (const { id } of signal.jobs) this.#look(id)
      if (signal.type === 'reported') for (const { id } of signal.held) this.#look(id)
      if (signal.type === 'changed') this.#lookAtAll()
    })
    this.#poll()
  }

  #poll(): void {
    this.#cancelPoll = this.#runtime.clock.after(pollMs, () => {
      this.#lookAtAll()
      this.#poll()
    })
  }

  #lookAtAll(): void {
    for (const id of [...this.#watched.keys()]) this.#look(id)
  }

  #look(id: string): void {
    for (const look of [...(this.#watched.get(id) ?? [])]) look()
  }
}

import { bounds } from '../core/bounds.js'
import type { JobRecord } from '../core/job.js'
import type { Runtime } from './runtime.js'

/** How often a watched job is looked at when no signal comes: polling is what correctness rests on. */
const pollMs = 1_000

/** Somebody who waits for a job. */
export interface Watch {
  /** The job as it is now; undefined when it does not exist. Called at least once. */
  seen(job: JobRecord | undefined): void
  failed(error: unknown): void
}

/** Reads jobs for those who wait for them: now, and when they may have changed. All of a moment share one read. */
export class Watcher {
  readonly #runtime: Runtime
  readonly #watched = new Map<string, Set<Watch>>()
  /** Watched jobs to read next. */
  readonly #stale = new Set<string>()
  #reading = false
  #unsubscribe: (() => void) | undefined
  #cancelPoll: (() => void) | undefined
  #cancelSoon: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Goes on until the returned function is called. The store must be open. */
  watch(id: string, watch: Watch): () => void {
    const watches = this.#watched.get(id) ?? new Set()
    this.#watched.set(id, watches)
    watches.add(watch)
    if (this.#unsubscribe === undefined) this.#start()
    this.#look(id)
    return () => {
      watches.delete(watch)
      if (watches.size === 0 && this.#watched.get(id) === watches) this.#watched.delete(id)
      if (this.#watched.size === 0) this.#stop()
    }
  }

  /** The last look: whoever still waits learns that there is nothing to wait for. */
  close(): void {
    this.#lookAtAll()
    this.#stop()
  }

  #start(): void {
    this.#unsubscribe = this.#runtime.store.subscribe((signal) => {
      if (signal.type === 'settled') for (const { id } of signal.settlements) this.#look(id)
      if (signal.type === 'claimed') for (const { id } of signal.jobs) this.#look(id)
      if (signal.type === 'reported') for (const { id } of signal.held) this.#look(id)
      if (signal.type === 'changed') this.#lookAtAllSoon()
    })
    this.#poll()
  }

  #stop(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#cancelPoll?.()
    this.#cancelSoon?.()
    this.#cancelSoon = undefined
  }

  #poll(): void {
    this.#cancelPoll = this.#runtime.clock.after(pollMs, () => {
      this.#lookAtAll()
      this.#poll()
    })
  }

  /** Other processes may change things all the time: the more is watched, the longer their changes gather. */
  #lookAtAllSoon(): void {
    const pause = Math.min(pollMs, Math.floor(this.#watched.size / 100))
    if (pause === 0) return this.#lookAtAll()
    this.#cancelSoon ??= this.#runtime.clock.after(pause, () => {
      this.#cancelSoon = undefined
      this.#lookAtAll()
    })
  }

  #lookAtAll(): void {
    for (const id of this.#watched.keys()) this.#look(id)
  }

  #look(id: string): void {
    if (!this.#watched.has(id)) return
    this.#stale.add(id)
    if (this.#reading) return
    this.#reading = true
    queueMicrotask(() => void this.#read())
  }

  async #read(): Promise<void> {
    while (this.#stale.size > 0) {
      const ids = [...this.#stale].slice(0, bounds.page)
      for (const id of ids) this.#stale.delete(id)
      try {
        await this.#runtime.ready()
        const jobs = await this.#runtime.store.get(ids)
        for (const [i, id] of ids.entries()) this.#tell(id, (watch) => watch.seen(jobs[i]))
      } catch (error) {
        for (const id of ids) this.#tell(id, (watch) => watch.failed(error))
      }
    }
    this.#reading = false
  }

  #tell(id: string, how: (watch: Watch) => void): void {
    for (const watch of [...(this.#watched.get(id) ?? [])]) how(watch)
  }
}

import type { ClaimedJob } from '../../core/job.js'
import type { Held, Settlement, Signal } from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import { Changes } from '../../databases/sqlite/changes.js'
import type { Connection } from '../../databases/sqlite/connection.js'
import { attempt } from '../../system/attempt.js'

/**
 * Wake-ups. What this process does is told after its commit; what others do shows as a change of the file.
 */
export class Signals {
  readonly #connection: Connection
  readonly #listeners = new Set<(signal: Signal) => void>()
  readonly #changes: Changes
  #readyQueues = new Set<string>()
  #soonest = Number.POSITIVE_INFINITY
  #scheduled = false

  constructor(connection: Connection) {
    this.#connection = connection
    this.#changes = new Changes(connection, () => this.#tell({ type: 'changed' }))
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    this.#listeners.add(listener)
    this.#changes.start()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.stop()
    }
  }

  stop(): void {
    this.#changes.stop()
  }

  ready(queue: string): void {
    if (this.#listeners.size === 0) return
    this.#readyQueues.add(queue)
    this.#tellAfterCommit()
  }

  due(delay: number): void {
    if (this.#listeners.size === 0) return
    this.#soonest = Math.min(this.#soonest, delay)
    this.#tellAfterCommit()
  }

  settled(settlements: readonly Settlement[]): void {
    if (this.#listeners.size > 0)
      this.#connection.afterCommit(() => this.#tell({ type: 'settled', settlements }))
  }

  claimed(jobs: readonly ClaimedJob[]): void {
    if (this.#listeners.size > 0) this.#connection.afterCommit(() => this.#tell({ type: 'claimed', jobs }))
  }

  reported(held: readonly Held[]): void {
    if (this.#listeners.size > 0) this.#connection.afterCommit(() => this.#tell({ type: 'reported', held }))
  }

  cancel(): void {
    this.#connection.afterCommit(() => this.#tell({ type: 'cancel' }))
  }

  changed(): void {
    this.#connection.afterCommit(() => this.#tell({ type: 'changed' }))
  }

  breaker(job: string, phase: BreakerPhase): void {
    this.#connection.afterCommit(() => this.#tell({ type: 'breaker', job, phase }))
  }

  quarantine(job: string, on: boolean): void {
    this.#connection.afterCommit(() => this.#tell({ type: 'quarantine', job, on }))
  }

  /** What another connection of this process has committed. */
  tell(signal: Signal): void {
    this.#tell(signal)
  }

  /** Forgets what a rolled-back transaction wanted to tell. */
  forget(): void {
    this.#readyQueues = new Set()
    this.#soonest = Number.POSITIVE_INFINITY
    this.#scheduled = false
  }

  #tellAfterCommit(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#connection.afterCommit(() => {
      const queues = this.#readyQueues
      const delay = this.#soonest
      this.forget()
      if (queues.size > 0) this.#tell({ type: 'ready', queues })
      if (delay < Number.POSITIVE_INFINITY) this.#tell({ type: 'due', delay })
    })
  }

  #tell(signal: Signal): void {
    for (const listener of this.#listeners) attempt(listener, signal)
  }
}

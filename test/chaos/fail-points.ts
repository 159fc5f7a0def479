/**
 * Where a process kills itself with SIGKILL. The product has no hooks for this: the points lie in the store
 * that wraps the engine (recording-store.ts) and in the handlers (jobs.ts).
 */
import type { Random } from './random.js'

export type FailPoint =
  /** Jobs were claimed, none has started. */
  | 'claimed'
  | 'mid-handler'
  /** The handler returned, its settlement was not sent. */
  | 'handler-done'
  /** The settlement is committed, the worker never hears of it. */
  | 'settle-sent'
  | 'retry-before'
  | 'retry-after'
  | 'dead-before'
  | 'dead-after'
  /** While the worker drains after SIGTERM. */
  | 'drain'
  | 'renewal-before'
  | 'renewal-after'
  /** Around the settlement that gives back the job of a lost worker. */
  | 'rescue-before'
  | 'rescue-after'
  /** Around the advance of a schedule, which fires its jobs. */
  | 'advance-before'
  | 'advance-after'
  /** What a step did is about to be written, or is. */
  | 'step-before'
  | 'step-after'
  /** The same of a saga's compensation. */
  | 'undo-before'
  | 'undo-after'
  /** A thread kills the process at a random moment of the transaction. */
  | 'mid-commit'

/** The chance to die at each passage of a point. */
export type Armed<P extends string = FailPoint> = Partial<Record<P, number>>

/** Where last words go. */
interface DeathBook {
  write(event: { e: 'die'; worker: string; point: string }): void
}

export class Doom<P extends string = FailPoint> {
  readonly #armed: Armed<P> | undefined
  readonly #random: Random
  readonly #journal: DeathBook
  /** Known once the worker exists. */
  worker = ''

  constructor(armed: Armed<P> | undefined, random: Random, journal: DeathBook) {
    this.#armed = armed
    this.#random = random
    this.#journal = journal
  }

  /** Kills this process if the point is armed and luck has it. */
  at(point: P): void {
    if (this.strikes(point)) this.die(point)
  }

  strikes(point: P): boolean {
    const chance = this.#armed?.[point]
    return chance !== undefined && this.#random.chance(chance)
  }

  die(point: P): void {
    this.announce(point)
    process.kill(process.pid, 'SIGKILL')
  }

  announce(point: P): void {
    this.#journal.write({ e: 'die', worker: this.worker, point })
  }
}

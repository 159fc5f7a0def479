import type { Failure, LogLevel } from './job.js'
import type { Priority } from './lanes.js'
import type { BreakerPhase } from './traffic/breaker.js'

/** What every job event tells. Input and result stay out: they may be large or secret. */
export interface JobEvent {
  readonly id: string
  readonly name: string
  readonly queue: string
}

export interface RunEvent extends JobEvent {
  readonly priority: Priority
  readonly attempt: number
  readonly worker: string
}

/**
 * Events that this process caused: its own enqueues, its own workers. They are for logs and metrics;
 * `job.watch()` and `job.result()` see what other processes do as well.
 */
export interface MillraceEvents {
  enqueued: JobEvent & { readonly duplicate: boolean }
  /** Its queue is overloaded: the job was dropped, or put off. */
  shed: JobEvent & { readonly priority: Priority; readonly deferred: boolean }
  started: RunEvent & { readonly waited: number }
  progress: RunEvent & { readonly progress: unknown }
  log: RunEvent & { readonly level: LogLevel; readonly text: string }
  /** A run gave its slot back: the job sleeps until then, or waits for signals of these keys. */
  waiting: RunEvent & { readonly until: Date | undefined; readonly keys: readonly string[] }
  /** `stored`: its handler was not called, because another job had done the same under its idempotency key. */
  completed: RunEvent & { readonly ran: number; readonly waited: number; readonly stored?: true }
  /** An attempt failed; `retrying`, `dead` or `cancelled` follows. */
  failed: RunEvent & { readonly failure: Failure; readonly ran: number }
  retrying: RunEvent & { readonly failure: Failure; readonly delay: number }
  dead: RunEvent & { readonly failure: Failure }
  /** A saga died with something done that it could not undo; `dead` is told too. Somebody has to look. */
  compensationFailed: RunEvent & { readonly failure: Failure }
  /**
   * A running job was stopped, or one that this process cancelled will never run. Without a reason when only
   * the store had heard of the cancel.
   */
  cancelled: JobEvent & { readonly reason: string | undefined }
  /**
   * The job's worker was lost, or lives and knows nothing of the job. This process gave the job back, or found it poisonous
   * and dead.
   */
  stalled: JobEvent & { readonly worker: string }
  /** A handler went on after its time; it was left alone, or killed in its sandbox, and can write nothing more. */
  abandoned: RunEvent & { readonly why: string }
  /** A worker's lease was lost under this job; its outcome was refused. */
  lost: RunEvent
  /** Jobs of a name or version that this process does not know; they were put off for another worker. */
  unknown: JobEvent
  /** The other side asked to come back later: all jobs of the key, or of the definition, wait `delay` ms. */
  limited: RunEvent & { readonly key: string | undefined; readonly delay: number }
  /** A definition's circuit breaker changed. Told in the process that caused it, not in the others. */
  breaker: { readonly job: string; readonly phase: BreakerPhase }
  /** A definition's jobs killed workers and run alone from now on, or no more. */
  quarantine: { readonly job: string; readonly on: boolean }
  /**
   * Slots of a schedule passed without a job, from `since` on, because no worker ran and its `catchUp` wants none
   * for them, or because the clock was once ahead and they may have fired. A `count` of 100 stands for that many or more. Told in the process whose worker found out.
   */
  missed: { readonly schedule: string; readonly count: number; readonly since: Date }
  /** A worker found nothing more to do in its queues. */
  drained: { readonly worker: string; readonly queues: readonly string[] }
  paused: { readonly queue: string }
  resumed: { readonly queue: string }
  /**
   * The store did not answer as it should, or its clock was set back far; the work goes on when it can. Also what
   * was set up and cannot work, such as a schedule that never fires.
   */
  error: { readonly error: unknown; readonly during: string }
}

export type EventName = keyof MillraceEvents
export type Listener<E extends EventName> = (event: MillraceEvents[E]) => void

type Trouble = MillraceEvents['error']

/** A minimal emitter. A listener that throws becomes an `error` event: it cannot harm the work it watches. */
export class Emitter<Events extends { error: Trouble } = MillraceEvents> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => void>>()
  readonly #unheard: (trouble: Trouble) => void

  /** `unheard` gets the errors that no listener wants. */
  constructor(unheard: (trouble: Trouble) => void) {
    this.#unheard = unheard
  }

  on<E extends keyof Events>(name: E, listener: (event: Events[E]) => void): () => void {
    const set = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, set)
    set.add(listener)
    return () => set.delete(listener)
  }

  /** Callers on the hot path ask first, so that an event nobody wants is never built. */
  wants(name: keyof Events): boolean {
    const set = this.#listeners.get(name)
    return set !== undefined && set.size > 0
  }

  emit<E extends keyof Events>(name: E, event: Events[E]): void {
    if (name === 'error' && !this.wants('error')) return this.#unheard(event as Trouble)
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        ;(listener as (event: Events[E]) => void)(event)
      } catch (error) {
        const trouble = { error, during: `listener of '${String(name)}'` }
        if (name === 'error') this.#unheard(trouble)
        else this.emit('error', trouble as Events['error'])
      }
    }
  }
}

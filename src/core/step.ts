/**
 * Durable steps: what a handler has done so far, by name, so that its next run goes on from there. A step is
 * written under the lease and is there before the handler goes on.
 */

export interface StepRecord {
  readonly name: string
  /** What it gave, encoded; undefined for nothing, and for a wait that is not over. */
  readonly value: string | undefined
  /** When a sleep or a wait ends, by the store's clock. */
  readonly until: number | undefined
  /** Of a wait that a signal ended: the number of that signal. */
  readonly signal: number | undefined
  readonly at: number
}

/** What a blocked job waits for. Whatever comes first wakes it; its next run finds out what that was. */
export interface Wait {
  /** Epoch milliseconds, judged by the store's clock. */
  readonly until: number | undefined
  readonly signals: readonly SignalWait[]
  /** All of its children have ended. */
  readonly children: boolean
}

export interface SignalWait {
  readonly key: string
  /** The step that gets the payload. */
  readonly step: string
  /** Number of the last signal of this key that the job has had: it gets each one once, in order. */
  readonly after: number
}

export interface NewSignal {
  readonly key: string
  /** A signal that is sent again with its id is sent once. */
  readonly id: string
  readonly payload: string | undefined
  /** Milliseconds that it is kept for jobs that will wait for it. */
  readonly retain: number
}

/**
 * Durable steps: what a handler has done so far, by name, so that its next run goes on from there. A step is
 * written under the lease and is there before the handler goes on.
 */

export interface StepRecord {
  readonly name: string
  /** What it gave, encoded; undefined for nothing, and for a wait that is not over. */
  readonly value: string | undefined
  /** A sleep or a wait that is not over. Only a store ends it, when it wakes the job. */
  readonly open: boolean
  /** When a sleep or a wait ends, by the store's clock. */
  readonly until: number | undefined
  /** Of a wait that a signal ended: the number of that signal. */
  readonly signal: number | undefined
  readonly at: number
}

/**
 * Says which step of which job, so that no two steps share a key and one can be a job's id: colons of the id are
 * doubled, and the name begins with none, so the first single one, of an odd number in a row, ends the id.
 */
export function stepKey(jobId: string, name: string): string {
  return `${jobId.replaceAll(':', '::')}:${name}`
}

/** What a blocked job waits for. Whatever comes first wakes it; its next run finds out what that was. */
export interface Wait {
  /** Epoch milliseconds, judged by the store's clock: the soonest end among the steps that are open. */
  readonly until: number | undefined
  readonly signals: readonly SignalWait[]
  /** All of its children have ended that are not a step's. */
  readonly children: boolean
  /** All children of one of these have ended. */
  readonly fans: readonly string[]
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

/** A signal that is kept. */
export interface KeptSignal {
  /** Signals are numbered as they come, over all keys. */
  readonly n: number
  readonly payload: string | undefined
}

export interface Delivery<S extends KeptSignal> {
  readonly step: string
  readonly signal: S
}

/** What the waits of one job get: each the oldest signal that the job has not had, and none of them twice. */
export function deliver<S extends KeptSignal>(
  waits: readonly SignalWait[],
  next: (key: string, after: number) => S | undefined,
): Delivery<S>[] {
  const had = new Map<string, number>()
  return waits.flatMap(({ key, step, after }) => {
    const signal = next(key, Math.max(after, had.get(key) ?? 0))
    if (signal === undefined) return []
    had.set(key, signal.n)
    return { step, signal }
  })
}

/** The memo of a wait that a signal ended. */
export function answered({ step, signal }: Delivery<KeptSignal>, at: number): StepRecord {
  return { name: step, value: signal.payload, open: false, until: undefined, signal: signal.n, at }
}

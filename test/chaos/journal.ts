/**
 * What every process saw, one JSON line per event, in a file of its own. Each line is one synchronous
 * append: it is in the kernel before the next step, so a SIGKILL loses none.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { JobState, SettleResult } from 'millrace'

/** `t` is epoch milliseconds; all processes share one machine and so one clock. */
export type HistoryEvent =
  | { e: 'enqueue-try'; t: number; id: string; lane: number; delay: number }
  | { e: 'enqueue-ack'; t: number; id: string }
  /** The caller was told that nothing was written. */
  | { e: 'enqueue-refused'; t: number; id: string; code: string }
  | ({ e: 'claim'; t: number } & Lease)
  | ({ e: 'start'; t: number } & Lease)
  | ({ e: 'settle-try'; t: number } & SettledOutcome)
  | ({ e: 'settle-result'; t: number; result: SettleResult } & SettledOutcome)
  /** Shown to users by the `error` event. */
  | { e: 'error'; t: number; code: string; during: string; message: string }
  /** Shown to users by the `lost` event. */
  | { e: 'lost'; t: number; id: string; worker: string }
  /** A step did something to the world outside, under its key. */
  | { e: 'effect'; t: number; id: string; name: string; key: string }
  /** The store has the step's memo. */
  | { e: 'step-kept'; t: number; id: string; name: string }
  /** The process is about to kill itself. */
  | { e: 'die'; t: number; worker: string; point: string }

/** One attempt's right to a job. */
export interface Lease {
  readonly id: string
  readonly token: string
  readonly attempt: number
  readonly lane: number
  /** When the job was claimed, by the store's clock: the order of claims. */
  readonly claimedAt: number
  readonly worker: string
}

export interface SettledOutcome {
  readonly id: string
  readonly token: string
  readonly to: JobState
  readonly delay: number
  /** Sent by another worker for one that was lost. */
  readonly rescue: boolean
  /** The process that sent it; its journal knows. */
  readonly by?: string
}

type WithoutTime<E> = E extends HistoryEvent ? Omit<E, 't'> : never

export class Journal {
  readonly #fd: number
  readonly #by: string

  constructor(folder: string, name: string) {
    this.#by = name
    this.#fd = openSync(join(folder, `${name}.jsonl`), 'a')
  }

  write(...events: WithoutTime<HistoryEvent>[]): void {
    if (events.length === 0) return
    const t = Date.now()
    writeSync(this.#fd, events.map((event) => `${JSON.stringify({ ...event, t, by: this.#by })}\n`).join(''))
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** All events of all processes, in the order of time. */
export function readJournals(folder: string): HistoryEvent[] {
  const events: HistoryEvent[] = []
  for (const file of readdirSync(folder)) {
    if (!file.endsWith('.jsonl')) continue
    // What stands after the last newline was cut off by the kill and never counted.
    const lines = readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1)
    for (const line of lines) events.push(JSON.parse(line) as HistoryEvent)
  }
  return events.sort((a, b) => a.t - b.t)
}

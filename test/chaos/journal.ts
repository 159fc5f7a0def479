/**
 * What every process saw, one JSON line per event, in a file of its own. Each line is one synchronous
 * append: it is in the kernel before the next step, so a SIGKILL loses none.
 */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { isMillraceError, type JobState, type SettleResult } from 'millrace'

/** `t` is epoch milliseconds; all processes share one machine and so one clock. `by` is the process that wrote it. */
export type HistoryEvent = Told & { readonly by?: string }

type Told =
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
  /** Given back by a worker that had not begun it. */
  readonly idle?: boolean
}

/** What every line has, whoever writes it. */
export interface Timed {
  readonly e: string
  readonly t: number
  readonly by?: string
}

export type WithoutTime<E> = E extends Timed ? Omit<E, 't'> : never

/** Of an enqueue that failed: refused, or nobody knows whether it was done. */
export function notEnqueued(id: string, error: unknown): WithoutTime<HistoryEvent> {
  const code = isMillraceError(error) ? error.code : String(error)
  return code === 'STORE_UNAVAILABLE'
    ? { e: 'error', code, during: 'enqueue', message: String(error) }
    : { e: 'enqueue-refused', id, code }
}

export class Journal<E extends Timed = HistoryEvent> {
  readonly #fd: number
  readonly #by: string

  constructor(folder: string, name: string) {
    this.#by = name
    this.#fd = openSync(join(folder, `${name}.jsonl`), 'a')
  }

  write(...events: WithoutTime<E>[]): void {
    if (events.length === 0) return
    const t = Date.now()
    writeSync(this.#fd, events.map((event) => `${JSON.stringify({ ...event, t, by: this.#by })}\n`).join(''))
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** All events of all processes, in the order of time. */
export function readJournals<E extends Timed = HistoryEvent>(folder: string): E[] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.jsonl'))
  return files.flatMap((file) => parse<E>(readFileSync(join(folder, file)))).sort((a, b) => a.t - b.t)
}

/** What a process writes down from now on, while it is alive. */
export class Tail<E extends Timed = HistoryEvent> {
  readonly #file: string
  readonly #from: number

  constructor(folder: string, name: string) {
    this.#file = join(folder, `${name}.jsonl`)
    this.#from = existsSync(this.#file) ? statSync(this.#file).size : 0
  }

  read(): E[] {
    if (!existsSync(this.#file)) return []
    const bytes = readFileSync(this.#file)
    // It may have begun in the middle of a write.
    const from = this.#from === 0 ? 0 : bytes.indexOf('\n', this.#from - 1) + 1
    return from === 0 && this.#from > 0 ? [] : parse(bytes.subarray(from))
  }
}

/** What stands after the last newline was cut off by a kill and never counted. */
export function parse<E>(bytes: Buffer): E[] {
  const lines = bytes.toString('utf8').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as E)
}

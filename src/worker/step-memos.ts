import { bounds } from '../core/bounds.js'
import type { Codec } from '../core/codec.js'
import { MillraceError } from '../core/errors.js'
import type { StepRecord } from '../core/step.js'
import { utf8Length } from '../core/text.js'

export interface MemoHost {
  readonly jobId: string
  readonly codec: Codec
  /** The store's clock, as far as is known here. */
  now(): number
  /** Steps of earlier runs. */
  read(): Promise<readonly StepRecord[]>
}

/** What the steps of a job gave: those of earlier runs, read when the first is asked for, and this run's. */
export class StepMemos {
  readonly #host: MemoHost
  #known: Map<string, StepRecord> | undefined
  #loading: Promise<Map<string, StepRecord>> | undefined
  /** Bytes of all that the steps gave. */
  #bytes = 0
  /** Steps that go with the next write, whatever that is. */
  readonly #unwritten = new Map<string, StepRecord>()

  constructor(host: MemoHost) {
    this.#host = host
  }

  async find(name: string): Promise<StepRecord | undefined> {
    return (await this.#load()).get(name)
  }

  #load(): Promise<Map<string, StepRecord>> {
    this.#loading ??= this.#host.read().then(
      (steps) => {
        this.#known = new Map(steps.map((step) => [step.name, step]))
        for (const { value } of steps) this.#bytes += sizeOf(value)
        return this.#known
      },
      (error: unknown) => {
        this.#loading = undefined
        throw error
      },
    )
    return this.#loading
  }

  /** The record of a step that is over; refuses what is too large. */
  done(name: string, value: unknown): StepRecord {
    const { codec } = this.#host
    const text = value === undefined ? undefined : codec.encode(value, `step '${name}'`, bounds.stepBytes)
    if (this.#bytes + sizeOf(text) > bounds.stepsBytes)
      throw tooLarge(this.#host.jobId, name, this.#bytes + sizeOf(text))
    return { name, value: text, open: false, until: undefined, signal: undefined, at: this.#host.now() }
  }

  add(step: StepRecord): void {
    this.#unwritten.set(step.name, step)
  }

  /** What has not been written; the caller does. */
  take(): StepRecord[] {
    const steps = [...this.#unwritten.values()]
    this.#unwritten.clear()
    return steps
  }

  /** Writes it with all that waits to be written. */
  async keep(done: StepRecord, write: (steps: readonly StepRecord[]) => Promise<void>): Promise<void> {
    const others = this.take()
    try {
      await write([...others, done])
    } catch (error) {
      for (const step of others) this.add(step)
      throw error
    }
    this.#bytes += sizeOf(done.value)
    this.#known?.set(done.name, done)
  }

  decode({ name, value }: StepRecord): unknown {
    if (value === undefined) return undefined
    try {
      return this.#host.codec.decode(value)
    } catch (error) {
      throw new MillraceError(
        'STORE_CORRUPT',
        `the stored value of step '${name}' of job ${this.#host.jobId} cannot be read`,
        { cause: error },
      )
    }
  }
}

function sizeOf(text: string | undefined): number {
  return text === undefined ? 0 : utf8Length(text, bounds.stepBytes)
}

function tooLarge(id: string, name: string, bytes: number): MillraceError {
  return new MillraceError(
    'PAYLOAD_TOO_LARGE',
    `with step '${name}' the steps of job ${id} have ${bytes} bytes, the limit for all of them is ${bounds.stepsBytes}; store the data elsewhere and give a reference`,
    { field: `step '${name}'`, value: bytes, limit: bounds.stepsBytes },
  )
}

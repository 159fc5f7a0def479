import type { Millrace, Stats } from 'millrace'
import { reportProgress } from './jobs.js'
import { waitsOnPurpose } from './workload.js'

export interface Times {
  readonly p50: number | undefined
  readonly p95: number | undefined
}

export interface FailureGroup {
  readonly job: string
  readonly message: string
  readonly count: number
  readonly fate: 'retried' | 'dead'
  readonly lastAt: number
}

export interface RunningReport {
  readonly title: string
  /** From 0 to 1. */
  readonly part: number
}

const samplesKept = 400
const secondsKept = 240
const groupsKept = 50

/** Measures what the shop's view shows beyond the counts: rates, times, progress and failures. */
export class Meter {
  readonly waits = new Map<string, Samples>()
  readonly runs = new Map<string, Samples>()
  readonly #failures = new Map<string, FailureGroup>()
  readonly #reports = new Map<string, RunningReport>()
  /** Completed jobs of each past second, of all processes. */
  readonly perSecond: number[] = []
  #lastCompleted: number | undefined

  constructor(mill: Millrace) {
    mill.on('started', ({ id, name, attempt, waited }) => {
      if (attempt === 1 && !waitsOnPurpose(id)) samplesOf(this.waits, name).add(waited)
    })
    mill.on('completed', ({ id, name, ran }) => {
      samplesOf(this.runs, name).add(ran)
      this.#reports.delete(id)
    })
    mill.on('failed', ({ id, name, failure }) => {
      this.#reports.delete(id)
      this.#count(failure.cause, name, failure.message)
    })
    mill.on('dead', ({ failure }) => this.#died(failure.cause))
    mill.on('progress', ({ id, progress }) => {
      const { data } = reportProgress.safeParse(progress)
      if (data !== undefined) this.#reports.set(id, { title: data.title, part: data.done / data.steps })
    })
  }

  /** Call about once a second with fresh figures, and the time since the last call. */
  tick({ totals }: Stats, elapsedMs: number): void {
    const done = totals.completed - (this.#lastCompleted ?? totals.completed)
    if (elapsedMs > 0) this.perSecond.push((done * 1000) / elapsedMs)
    if (this.perSecond.length > secondsKept) this.perSecond.shift()
    this.#lastCompleted = totals.completed
  }

  /** Jobs per second over the last few seconds. */
  get rate(): number {
    const recent = this.perSecond.slice(-5)
    return recent.length === 0 ? 0 : recent.reduce((sum, n) => sum + n, 0) / recent.length
  }

  get reports(): readonly RunningReport[] {
    return [...this.#reports.values()]
  }

  /** The most recent first. */
  get failures(): readonly FailureGroup[] {
    return [...this.#failures.values()].sort((a, b) => b.lastAt - a.lastAt)
  }

  #count(cause: string, job: string, message: string): void {
    const count = (this.#failures.get(cause)?.count ?? 0) + 1
    // Put at the end of the map, so that the first entry is the one not seen for longest.
    this.#failures.delete(cause)
    this.#failures.set(cause, { job, message, count, fate: 'retried', lastAt: Date.now() })
    if (this.#failures.size <= groupsKept) return
    for (const oldest of this.#failures.keys()) {
      this.#failures.delete(oldest)
      return
    }
  }

  #died(cause: string): void {
    const group = this.#failures.get(cause)
    if (group !== undefined) this.#failures.set(cause, { ...group, fate: 'dead' })
  }
}

/** The last some hundred measurements of one thing. */
export class Samples {
  readonly #values: number[] = []

  add(value: number): void {
    this.#values.push(value)
    if (this.#values.length > samplesKept) this.#values.shift()
  }

  get times(): Times {
    const sorted = this.#values.toSorted((a, b) => a - b)
    const at = (part: number) => sorted[Math.floor((sorted.length - 1) * part)]
    return { p50: at(0.5), p95: at(0.95) }
  }
}

function samplesOf(all: Map<string, Samples>, name: string): Samples {
  const samples = all.get(name) ?? new Samples()
  all.set(name, samples)
  return samples
}

/** What those who use the stores know of the jobs, and what of that must not have happened. */
import type { ClaimedJob, NewJob } from '../../../src/core/job.js'
import type { InsertResult, Settlement, SettleResult } from '../../../src/core/store.js'
import { idsOf } from '../../../src/testing/conformance/helpers.js'

interface HeldJob {
  readonly worker: string
  readonly job: ClaimedJob
}

/** How many of these jobs may run at the same time. */
export interface Most {
  readonly count: number
  readonly of: (job: { readonly name: string; readonly queue: string }) => boolean
}

export class Books {
  readonly wrong: string[] = []
  readonly ids: string[] = []
  readonly #most: Most
  readonly #held = new Map<string, HeldJob>()
  readonly #children = new Map<string, Set<string>>()
  readonly #mayHaveEnded = new Set<string>()
  /** Those who have begun to run, and so wait no more. */
  readonly #begun = new Set<string>()

  constructor(most: Most) {
    this.#most = most
  }

  get parents(): readonly string[] {
    return [...this.#children.keys()]
  }

  newId(): string {
    const id = `job-${this.ids.length}`
    this.ids.push(id)
    return id
  }

  /** Before it is inserted. */
  expectFamily(top: NewJob, children: readonly NewJob[]): void {
    this.#children.set(top.id, new Set(idsOf(children)))
  }

  hasBegun(parent: string): boolean {
    return this.#begun.has(parent)
  }

  /** `wasLate`: the parent was known to have begun when they were sent. */
  joined(
    parent: string,
    children: readonly NewJob[],
    results: readonly InsertResult[],
    wasLate: boolean,
  ): void {
    for (const { id } of children.filter((_, i) => results[i]?.status === 'inserted')) {
      this.#children.get(parent)?.add(id)
      // It may have ended, and its parent begun, before this answer came.
      const isLate = wasLate || (this.#begun.has(parent) && !this.#mayHaveEnded.has(id))
      if (isLate) this.wrong.push(`${id} joined ${parent}, which waits no more`)
    }
  }

  heldBy(worker: string): readonly ClaimedJob[] {
    return [...this.#held.values()].filter((held) => held.worker === worker).map(({ job }) => job)
  }

  /** Before they are sent: others may see the ends before the answer comes. */
  settling(settlements: readonly Settlement[]): void {
    for (const { id, outcome } of settlements) {
      this.#held.delete(id)
      if (outcome.to !== 'retrying') this.#mayHaveEnded.add(id)
    }
  }

  /** Of which all answers came. */
  settled(settlements: readonly Settlement[], results: readonly SettleResult[]): void {
    for (const { id } of settlements.filter((_, i) => results[i] === 'lost'))
      this.wrong.push(`${id} was lost by the worker that held it`)
  }

  /** Before it is sent: the same. */
  cancelling(id: string): void {
    this.#mayHaveEnded.add(id)
  }

  claimed(worker: string, jobs: readonly ClaimedJob[]): void {
    for (const job of jobs) {
      const held = this.#held.get(job.id)
      if (held !== undefined) this.wrong.push(`${job.id} is held by ${held.worker} and by ${worker}`)
      this.#held.set(job.id, { worker, job })
      this.#checkChildren(job.id)
    }
    const running = [...this.#held.values()].filter(({ job }) => this.#most.of(job)).length
    if (running > this.#most.count) this.wrong.push(`${running} run, ${this.#most.count} may`)
  }

  #checkChildren(id: string): void {
    const children = this.#children.get(id)
    if (children === undefined) return
    this.#begun.add(id)
    for (const child of children)
      if (!this.#mayHaveEnded.has(child)) this.wrong.push(`${id} runs before ${child} has ended`)
  }
}

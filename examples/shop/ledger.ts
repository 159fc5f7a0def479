import type { JobState, Millrace } from 'millrace'

/**
 * The shop's own book of what the job system took on: every id that an enqueue acknowledged. Jobs that a
 * handler adds exist once its outcome is stored, so they are entered when that is reported.
 */
export class Ledger {
  readonly #acknowledged = new Set<string>()
  readonly #children = new Map<string, Set<string>>()

  listen(mill: Millrace): void {
    for (const event of ['completed', 'failed', 'cancelled'] as const)
      mill.on(event, ({ id }) => this.#settled(id))
  }

  acknowledged(ids: Iterable<string>): void {
    for (const id of ids) this.#acknowledged.add(id)
  }

  /** A handler wants to add a job. */
  readonly added = (parent: string, child: string): void => {
    this.#children.set(parent, (this.#children.get(parent) ?? new Set()).add(child))
  }

  /** Looks up each entry in the store: how many are in which state, and how many it does not know. */
  async audit(mill: Millrace): Promise<Audit> {
    const states: Partial<Record<JobState, number>> = {}
    let lost = 0
    for (const id of this.#acknowledged) {
      const job = await mill.job(id).get()
      if (job === undefined) lost++
      else states[job.state] = (states[job.state] ?? 0) + 1
    }
    return { enqueued: this.#acknowledged.size, lost, states }
  }

  #settled(parent: string): void {
    this.acknowledged(this.#children.get(parent) ?? [])
    this.#children.delete(parent)
  }
}

export interface Audit {
  readonly enqueued: number
  readonly lost: number
  readonly states: Readonly<Partial<Record<JobState, number>>>
}

import type { AnyJob } from '../core/definition.js'
import { declaration } from '../core/flow-options.js'
import type { Store } from '../core/store.js'

/**
 * Tells the store what the code declares about limits and breakers. What is stored already is not written
 * again, so a deploy that repeats it changes nothing; what a definition no longer declares is taken back.
 */
export class Declarations {
  readonly #store: () => Store
  readonly #done = new WeakSet<AnyJob>()
  readonly #underWay = new Map<AnyJob, Promise<void>>()

  constructor(store: () => Store) {
    this.#store = store
  }

  has(job: AnyJob): boolean {
    return this.#done.has(job)
  }

  /** Calls at the same time share the work. */
  async declare(jobs: readonly AnyJob[]): Promise<void> {
    const fresh = jobs.filter((job) => !this.#done.has(job) && !this.#underWay.has(job))
    if (fresh.length > 0) {
      const work = this.#declare(fresh)
      for (const job of fresh) this.#underWay.set(job, work)
    }
    const waits = jobs.map((job) => this.#underWay.get(job)).filter((work) => work !== undefined)
    await Promise.all(new Set(waits))
  }

  async #declare(jobs: readonly AnyJob[]): Promise<void> {
    try {
      const store = this.#store()
      const names = jobs.map((job) => job.name)
      const { gates } = await store.gates({ of: 'job', names, limit: names.length })
      const stored = new Map(gates.map((gate) => [gate.ref.name, gate.declared]))
      for (const job of jobs) {
        const settings = job.flow?.settings ?? {}
        const same = canonical(stored.get(job.name) ?? {}) === canonical(settings)
        if (!same) {
          const gate = { of: 'job', name: job.name } as const
          await store.configure({ gate, change: declaration(settings), declared: true })
        }
        this.#done.add(job)
      }
    } finally {
      for (const job of jobs) this.#underWay.delete(job)
    }
  }
}

/** The same text for the same settings, in whatever order their fields came. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}

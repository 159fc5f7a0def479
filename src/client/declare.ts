import type { AnyJob } from '../core/definition.js'
import { declaration } from '../core/flow/options.js'
import type { FlowSettings } from '../core/flow/settings.js'
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

  async declareQueues(queues: readonly DeclaredQueue[]): Promise<void> {
    await this.#write('queue', queues)
  }

  async #declare(jobs: readonly AnyJob[]): Promise<void> {
    try {
      await this.#write(
        'job',
        jobs.map(({ name, flow }) => ({ name, settings: flow?.settings ?? {} })),
      )
      for (const job of jobs) this.#done.add(job)
    } finally {
      for (const job of jobs) this.#underWay.delete(job)
    }
  }

  async #write(of: 'job' | 'queue', wanted: readonly DeclaredQueue[]): Promise<void> {
    if (wanted.length === 0) return
    const store = this.#store()
    const names = wanted.map(({ name }) => name)
    const { gates } = await store.gates({ of, names, limit: names.length })
    const stored = new Map(gates.map((gate) => [gate.ref.name, gate.declared]))
    for (const { name, settings } of wanted) {
      if (canonical(stored.get(name) ?? {}) === canonical(settings)) continue
      await store.configure({ gate: { of, name }, change: declaration(settings), declared: true })
    }
  }
}

export interface DeclaredQueue {
  readonly name: string
  readonly settings: FlowSettings
}

/** The same text for the same settings, in whatever order their fields came. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}

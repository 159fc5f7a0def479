import type { AnyJob } from '../core/definition.js'
import type { Store } from '../core/store.js'
import { declaration } from '../core/traffic/options.js'
import { changed, type TrafficSettings } from '../core/traffic/settings.js'

/**
 * Tells the store what the code declares about limits and breakers. What is stored already is not written
 * again, so a deploy that repeats it changes nothing. What one of a Millrace's own `jobs` no longer declares is
 * taken back; a definition that is only enqueued may know less than the one that runs, so it takes nothing back.
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

  /** The jobs of a Millrace. */
  async declare(jobs: readonly AnyJob[]): Promise<void> {
    await this.#write('job', jobs.map(declared))
    for (const job of jobs) this.#done.add(job)
  }

  /** A job that is enqueued. Calls at the same time share the work. */
  add(job: AnyJob): Promise<void> {
    let work = this.#underWay.get(job)
    if (work === undefined) {
      work = this.#add(job).finally(() => this.#underWay.delete(job))
      this.#underWay.set(job, work)
    }
    return work
  }

  async declareQueues(queues: readonly Declared[]): Promise<void> {
    await this.#write('queue', queues)
  }

  async declareLimiters(limiters: readonly Declared[]): Promise<void> {
    await this.#write('limiter', limiters)
  }

  async #add(job: AnyJob): Promise<void> {
    await this.#write('job', [declared(job)], false)
    this.#done.add(job)
  }

  async #write(
    of: 'job' | 'queue' | 'limiter',
    wanted: readonly Declared[],
    takesBack = true,
  ): Promise<void> {
    if (wanted.length === 0) return
    const store = this.#store()
    const names = wanted.map(({ name }) => name)
    const { gates } = await store.gates({ of, names, limit: names.length })
    const stored = new Map(gates.map((gate) => [gate.ref.name, gate.declared]))
    for (const { name, settings } of wanted) {
      const old = stored.get(name) ?? {}
      const change = takesBack ? declaration(settings) : settings
      if (canonical(old) === canonical(changed(old, change))) continue
      await store.configure({ gate: { of, name }, change, declared: true })
    }
  }
}

export interface Declared {
  readonly name: string
  readonly settings: TrafficSettings
}

function declared({ name, traffic }: AnyJob): Declared {
  return { name, settings: traffic?.settings ?? {} }
}

/** The same text for the same settings, in whatever order their fields came. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}

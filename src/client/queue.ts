import { bounds } from '../core/bounds.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import type { JobState, jobStates } from '../core/job.js'
import { laneNames, type Priority } from '../core/lanes.js'
import { integer, name } from '../core/options.js'
import { compileDepth, type DepthOptions, type LimitOptions } from '../core/traffic/options.js'
import type { GateRef } from '../core/traffic/settings.js'
import { choose, GroupHandle, type GroupStatus, groupStatus, limitChange } from './gates.js'
import type { PageOptions } from './inspect.js'
import type { Runtime } from './runtime.js'
import { sumStates } from './stats.js'

export interface QueueDepth {
  /** Ready to run. */
  readonly pending: number
  readonly running: number
  /** Due later: scheduled and retrying. */
  readonly later: number
  readonly blocked: number
  /** Ready jobs by lane. */
  readonly lanes: Readonly<Record<Priority, number>>
  readonly paused: boolean
}

export interface GroupList {
  readonly groups: readonly GroupStatus[]
  readonly cursor: string | undefined
}

/** How often `drain` looks, besides the signals. */
const lookEveryMs = 250

export class QueueHandle {
  readonly name: string
  readonly #runtime: Runtime

  constructor(runtime: Runtime, queue: string) {
    this.name = name(queue, 'queue')
    this.#runtime = runtime
  }

  /** Workers take no more jobs from it; running ones go on. Holds for all processes until `resume`. */
  async pause(): Promise<void> {
    await this.#configure(true)
    this.#runtime.events.emit('paused', { queue: this.name })
  }

  async resume(): Promise<void> {
    await this.#configure(false)
    this.#runtime.events.emit('resumed', { queue: this.name })
  }

  /** Of all its jobs together, for all processes, until it is changed again; null goes back to the code's. */
  async limit(limit: LimitOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { limit: limitChange(limit, 'limit') })
  }

  /** Of the jobs of each group. */
  async groupLimit(limit: LimitOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { each: limitChange(limit, 'groupLimit') })
  }

  /** How many ready jobs it takes; null goes back to the code's. */
  async depthLimit(depth: DepthOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { depth: depth === null ? null : compileDepth(depth, 'depth') })
  }

  group(group: string | number): GroupHandle {
    return new GroupHandle(this.#runtime, this.name, group)
  }

  /** Groups that have jobs or settings, by name; goes on with `cursor`. */
  async groups(page: PageOptions = {}): Promise<GroupList> {
    await this.#runtime.ready()
    const limit = integer(page.limit ?? 100, 'limit', 1, bounds.page)
    const { gates, cursor } = await this.#runtime.store.gates({
      of: 'group',
      owner: this.name,
      limit,
      cursor: page.cursor,
    })
    return { groups: gates.map(groupStatus), cursor }
  }

  /** Known without counting: every write keeps it. */
  async depth(): Promise<QueueDepth> {
    await this.#runtime.ready()
    const { kinds, paused } = await this.#runtime.store.counts()
    const mine = kinds.filter((kind) => kind.queue === this.name)
    const states = sumStates(mine)
    const lanes = Object.fromEntries(
      laneNames.map((lane, i) => [lane, sumStates(mine.filter((kind) => kind.lane === i)).pending]),
    ) as Record<Priority, number>
    return {
      pending: states.pending,
      running: states.running,
      later: states.scheduled + states.retrying,
      blocked: states.blocked,
      lanes,
      paused: paused.includes(this.name),
    }
  }

  /** Resolves when no job is ready or running; with `later`, when none is due later or blocked either. */
  async drain(options: { readonly later?: boolean; readonly timeout?: Duration } = {}): Promise<void> {
    const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout, 'timeout')
    await this.#runtime.ready()
    const { clock, store } = this.#runtime
    const deadline = timeout === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() + timeout
    for (;;) {
      const depth = await this.depth()
      const left = depth.pending + depth.running + (options.later ? depth.later + depth.blocked : 0)
      if (left === 0) return
      if (clock.monotonic() >= deadline) {
        throw new MillraceError(
          'WAIT_TIMEOUT',
          `queue '${this.name}' still has ${left} jobs after ${timeout} ms`,
          { limit: timeout },
        )
      }
      await new Promise<void>((resolve) => {
        const wake = () => {
          unsubscribe()
          cancel()
          resolve()
        }
        const unsubscribe = store.subscribe((signal) => {
          if (signal.type === 'settled' || signal.type === 'changed') wake()
        })
        const cancel = clock.after(Math.min(lookEveryMs, Math.max(0, deadline - clock.monotonic())), wake)
      })
    }
  }

  /** Removes the jobs that wait (ready, due later, blocked) and returns how many; running ones go on. */
  async clear(options: { readonly states?: readonly Exclude<JobState, 'running'>[] } = {}): Promise<number> {
    await this.#runtime.ready()
    let removed = 0
    for (const state of blockedFirst(options.states ?? waitingStates)) {
      let cursor: string | undefined
      do {
        const selector = { filter: { state, queue: this.name }, limit: bounds.batch, cursor }
        const report = await this.#runtime.store.operate(selector, { do: 'remove' })
        removed += report.affected.length
        cursor = report.cursor
      } while (cursor !== undefined)
    }
    return removed
  }

  get #ref(): GateRef {
    return { of: 'queue', name: this.name }
  }

  async #configure(paused: boolean): Promise<void> {
    await this.#runtime.ready()
    await this.#runtime.store.configure({ queue: this.name, paused })
  }
}

const waitingStates = [
  'pending',
  'scheduled',
  'retrying',
  'blocked',
] as const satisfies readonly (typeof jobStates)[number][]

/** The removal of a job makes those ready that were blocked by it: these must not come when the ready ones are gone. */
function blockedFirst<S extends JobState>(states: readonly S[]): S[] {
  return [...states.filter((state) => state === 'blocked'), ...states.filter((state) => state !== 'blocked')]
}

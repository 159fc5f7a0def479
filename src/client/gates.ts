import { bounds } from '../core/bounds.js'
import { integer, name } from '../core/options.js'
import type { GateRecord } from '../core/store.js'
import type { BreakerPhase } from '../core/traffic/breaker.js'
import { belonging, compileLimit, type LimitOptions } from '../core/traffic/options.js'
import type { GateRef, Limit, TrafficChange } from '../core/traffic/settings.js'
import type { Runtime } from './runtime.js'
import { sumStates } from './stats.js'

/** Settings are chosen for all processes and hold until they are changed again; null goes back to the code's. */
export async function choose(runtime: Runtime, gate: GateRef, change: TrafficChange): Promise<void> {
  await runtime.ready()
  await runtime.store.configure({ gate, change, declared: false })
}

async function read(runtime: Runtime, ref: GateRef, owner?: string): Promise<GateRecord | undefined> {
  await runtime.ready()
  const { gates } = await runtime.store.gates({ of: ref.of, owner, names: [ref.name], limit: 1 })
  return gates[0]
}

export function limitChange(limit: LimitOptions | null, field: string): Limit | null {
  return limit === null ? null : compileLimit(limit, field)
}

export interface DefinitionStatus {
  readonly running: number
  /** How many more of its jobs may start now; undefined when nothing limits them. */
  readonly room: number | undefined
  /** When that changes by itself, while it is 0. */
  readonly opensAt: Date | undefined
  readonly breaker: BreakerPhase
  /** Since when its jobs run alone because they killed workers. */
  readonly quarantinedAt: Date | undefined
}

/** What can be changed about a kind of job at run time, for all processes. */
export class DefinitionHandle {
  readonly name: string
  readonly #runtime: Runtime

  constructor(runtime: Runtime, job: string) {
    this.name = name(job, 'job')
    this.#runtime = runtime
  }

  async status(): Promise<DefinitionStatus> {
    const gate = await read(this.#runtime, this.#ref)
    // A definition that nothing holds up has no gate, and runs all the same.
    const { kinds } = await this.#runtime.store.counts()
    return {
      running: sumStates(kinds.filter((kind) => kind.name === this.name)).running,
      room: gate?.room,
      opensAt: gate?.opensAt === undefined ? undefined : new Date(gate.opensAt),
      breaker: gate?.breaker ?? 'closed',
      quarantinedAt: gate?.quarantinedAt === undefined ? undefined : new Date(gate.quarantinedAt),
    }
  }

  /** Of all its jobs together. */
  async limit(limit: LimitOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { limit: limitChange(limit, 'limit') })
  }

  /** Of the jobs of each key. */
  async keyLimit(limit: LimitOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { each: limitChange(limit, 'keyLimit') })
  }

  /** Stops its jobs until `closeBreaker`; running ones go on. */
  openBreaker(): Promise<void> {
    return this.#setBreaker('open')
  }

  closeBreaker(): Promise<void> {
    return this.#setBreaker('closed')
  }

  /** Ends what a handler told with `limited`, for all of its jobs or those of one key. */
  async release(key?: string | number): Promise<void> {
    const gate: GateRef =
      key === undefined ? this.#ref : { of: 'key', job: this.name, name: belonging(key, 'key') }
    await this.#runtime.ready()
    await this.#runtime.store.configure({ gate, release: true })
  }

  async #setBreaker(breaker: 'open' | 'closed'): Promise<void> {
    await this.#runtime.ready()
    await this.#runtime.store.configure({ job: this.name, breaker })
  }

  get #ref(): GateRef {
    return { of: 'job', name: this.name }
  }
}

export interface GroupStatus {
  readonly name: string
  /** Jobs that are ready and wait for their turn, or for the group to be open. */
  readonly pending: number
  readonly running: number
  readonly paused: boolean
}

/** A tenant, or whatever `group` names, inside a queue. */
export class GroupHandle {
  readonly queue: string
  readonly name: string
  readonly #runtime: Runtime

  constructor(runtime: Runtime, queue: string, group: string | number) {
    this.queue = name(queue, 'queue')
    this.name = belonging(group, 'group')
    this.#runtime = runtime
  }

  /** Known without counting: every write keeps it. */
  async depth(): Promise<GroupStatus> {
    const gate = await read(this.#runtime, this.#ref, this.queue)
    return gate === undefined ? { name: this.name, pending: 0, running: 0, paused: false } : groupStatus(gate)
  }

  /** Workers take no more of its jobs; running ones go on. */
  pause(): Promise<void> {
    return choose(this.#runtime, this.#ref, { paused: true })
  }

  resume(): Promise<void> {
    return choose(this.#runtime, this.#ref, { paused: null })
  }

  /** Instead of the queue's `groupLimit`. */
  async limit(limit: LimitOptions | null): Promise<void> {
    return choose(this.#runtime, this.#ref, { limit: limitChange(limit, 'limit') })
  }

  /** Jobs in a turn, for those that come from now on. */
  async weight(weight: number | null): Promise<void> {
    const change = weight === null ? null : integer(weight, 'weight', 1, bounds.weight)
    return choose(this.#runtime, this.#ref, { weight: change })
  }

  get #ref(): GateRef {
    return { of: 'group', queue: this.queue, name: this.name }
  }
}

export function groupStatus({ ref, declared, chosen, pending, running }: GateRecord): GroupStatus {
  return { name: ref.name, pending, running, paused: { ...declared, ...chosen }.paused ?? false }
}

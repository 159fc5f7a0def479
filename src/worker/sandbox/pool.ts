import type { Runtime } from '../../client/runtime.js'
import { jsonCodec } from '../../core/codec.js'
import type { AnyJob } from '../../core/definition.js'
import { MillraceError } from '../../core/errors.js'
import type { ClaimedJob } from '../../core/job.js'
import { runsAlone } from '../../core/lifecycle.js'
import type { Run } from '../run.js'
import type { Child, Kind } from './child.js'
import { startProcess } from './process.js'
import { converse } from './task.js'
import { startThread } from './thread.js'

export interface PoolOptions {
  /** The most children, threads and processes together. */
  readonly size: number
  /** Milliseconds after which a child without work ends. */
  readonly idle: number
  /** Children that are there from the start and stay without work. */
  readonly warm: number
}

/** Who hears how a run gets on. */
export interface PoolListener {
  /** It has to stand in line for a child; its time does not run. */
  waits(run: Run): void
  /** It has its child; its time runs. */
  begins(run: Run): void
  /** It was told to stop, and its child does not hear it: its event loop is blocked. */
  deaf(run: Run): void
}

/** A thread that hangs inside native code cannot be ended; it must not hold up the others. */
const closeMs = 5_000

/** What a job needs, or undefined when it runs in the worker itself. The one place that decides it. */
export function sandboxFor({ sandbox }: AnyJob, job: ClaimedJob): Kind | undefined {
  if (sandbox === undefined) return undefined
  const { type, memory, use } = sandbox
  // What took a worker down may be what a thread does not isolate.
  if (runsAlone(job)) return { type: 'process', memory }
  return use === 'always' ? { type, memory } : undefined
}

/**
 * The sandboxes of one worker. A child has one job at a time and is used again; it is replaced when it dies or
 * is killed, and given up for one of another kind when all places are taken. A child counts until it is gone,
 * so there are never more than `size`. Jobs that find none wait in their slots, first come, first served.
 */
export class SandboxPool {
  readonly #runtime: Runtime
  readonly #jobs: ReadonlyMap<string, AnyJob>
  readonly #options: PoolOptions
  readonly #listener: PoolListener
  readonly #children = new Set<Child>()
  /** Killed and not yet gone. */
  readonly #ending = new Set<Child>()
  /** Without work, the longest idle first, each with the timer that ends it. */
  readonly #idle = new Map<Child, () => void>()
  #line: Waiting[] = []
  #closed = false

  constructor(
    runtime: Runtime,
    jobs: ReadonlyMap<string, AnyJob>,
    options: PoolOptions,
    listener: PoolListener,
  ) {
    this.#runtime = runtime
    this.#jobs = jobs
    this.#options = options
    this.#listener = listener
  }

  /** Starts the warm ones, in turn for each kind that is surely needed. */
  open(): void {
    const kinds = new Map<string, Kind>()
    for (const { sandbox } of this.#jobs.values()) {
      if (sandbox?.use === 'always') kinds.set(`${sandbox.type} ${sandbox.memory}`, sandbox)
    }
    const wanted = [...kinds.values()]
    const count = wanted.length === 0 ? 0 : Math.min(this.#options.warm, this.#options.size)
    for (let i = 0; i < count; i++) this.#rest(this.#start(wanted[i % wanted.length] as Kind))
  }

  /** Runs the handler in a child. Settles as the handler does. */
  run(run: Run, input: unknown, kind: Kind): Promise<unknown> {
    const text =
      input === undefined ? undefined : jsonCodec.encode(input, 'the parsed input', Number.MAX_SAFE_INTEGER)
    return this.#childFor(run, kind).then((child) => this.#begin(run, text, child))
  }

  /** Rejects when the run is told to stop, or ends, before it gets one. */
  #childFor(run: Run, kind: Kind): Promise<Child> {
    const { signal } = run
    return new Promise<Child>((resolve, reject) => {
      const waiting: Waiting = { kind, resolve, reject }
      run.kill = () => {
        this.#line = this.#line.filter((other) => other !== waiting)
        reject(run.stopped ?? closed())
      }
      if (run.ended || this.#closed) return run.kill()
      signal.addEventListener('abort', run.kill, { once: true })
      this.#line.push(waiting)
      this.#serve()
      if (this.#line.includes(waiting)) this.#listener.waits(run)
    }).finally(() => {
      if (run.kill !== undefined) signal.removeEventListener('abort', run.kill)
    })
  }

  async #begin(run: Run, input: string | undefined, child: Child): Promise<unknown> {
    run.kill = () => this.#end(child)
    try {
      if (run.ended) throw closed()
      this.#listener.begins(run)
      return await converse(child, run, input, this.#runtime, this.#jobs, () => this.#listener.deaf(run))
    } finally {
      run.kill = undefined
      if (child.death !== undefined) this.#replace(child)
      else if (!this.#ending.has(child)) this.#rest(child)
      this.#serve()
    }
  }

  /** Gives children to those in line, in their order, as long as there is one to give. */
  #serve(): void {
    for (let next = this.#line[0]; next !== undefined && !this.#closed; next = this.#line[0]) {
      try {
        const child = this.#take(next.kind)
        if (child === undefined) return
        next.resolve(child)
      } catch (error) {
        next.reject(error) // the system gives no more threads or processes
      }
      this.#line.shift()
    }
  }

  #take(kind: Kind): Child | undefined {
    const rested = [...this.#idle.keys()]
    // The last one used is the warmest.
    const child = rested.findLast((one) => isOf(one, kind))
    if (child !== undefined) {
      this.#rouse(child)
      return child
    }
    if (this.#children.size < this.#options.size) return this.#start(kind)
    const [spare] = rested
    if (spare !== undefined && this.#ending.size < this.#line.length) this.#end(spare)
    return undefined
  }

  #start(kind: Kind): Child {
    const child = kind.type === 'thread' ? startThread(kind.memory) : startProcess(kind.memory)
    this.#children.add(child)
    void child.gone.then(() => {
      this.#remove(child)
      this.#serve()
    })
    return child
  }

  /** One that died at its work, not one that cannot even start: that would go on for ever. */
  #replace(child: Child): void {
    this.#remove(child)
    if (!this.#closed && this.#children.size < this.#options.warm) this.#rest(this.#start(child.kind))
  }

  #remove(child: Child): void {
    this.#rouse(child)
    this.#ending.delete(child)
    this.#children.delete(child)
  }

  #rest(child: Child): void {
    const spare = () => this.#children.size > this.#options.warm && this.#end(child)
    this.#idle.set(child, this.#runtime.clock.after(this.#options.idle, spare))
  }

  #rouse(child: Child): void {
    this.#idle.get(child)?.()
    this.#idle.delete(child)
  }

  #end(child: Child): void {
    this.#rouse(child)
    this.#ending.add(child)
    child.kill()
  }

  /** Resolves when every child is gone. */
  async close(): Promise<void> {
    this.#closed = true
    for (const { reject } of this.#line) reject(closed())
    for (const child of this.#children) this.#end(child)
    let cancel = () => {}
    const patience = new Promise<void>((resolve) => {
      cancel = this.#runtime.clock.after(closeMs, resolve)
    })
    await Promise.race([Promise.all([...this.#children].map((child) => child.gone)), patience])
    cancel()
  }
}

interface Waiting {
  readonly kind: Kind
  readonly resolve: (child: Child) => void
  readonly reject: (error: unknown) => void
}

function isOf(child: Child, { type, memory }: Kind): boolean {
  return child.kind.type === type && child.kind.memory === memory
}

function closed(): MillraceError {
  return new MillraceError('SHUTDOWN', 'the worker shuts down; the job was given back')
}

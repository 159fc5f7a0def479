import { availableParallelism } from 'node:os'
import { builtInJobs } from '../client/built-in.js'
import { bounds } from '../core/bounds.js'
import type { AnyJob } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import {
  compileLanes,
  defaults,
  integer,
  invalid,
  type LaneOptions,
  name,
  noUnknown,
  noUnknownIn,
} from '../core/options.js'

export interface WorkerOptions {
  /** Jobs that run at the same time. @default 10 */
  readonly concurrency?: number
  /** Queues to take jobs from, with equal turns. @default the queues of the known jobs */
  readonly queues?: readonly string[]
  readonly lanes?: LaneOptions
  /** How long the worker may be silent before its jobs go to others. @default '30s' */
  readonly lease?: Duration
  /** How often to look for work when no signal comes, and to sweep. @default '1s' */
  readonly poll?: Duration
  /** How long `stop` waits for running jobs. @default '30s' */
  readonly grace?: Duration
  /**
   * How long a handler may go on after its signal aborted; then it is left alone, or its sandbox killed. A
   * sandbox whose event loop is blocked cannot hear the signal and is killed after half a second.
   * @default '5s'
   */
  readonly abandonAfter?: Duration
  /** Jobs to hold beyond the slots. @default 'auto': many when jobs take less than a moment, none when they take long */
  readonly prefetch?: number | 'auto'
  /** The most finished jobs to keep. @default { completed: 100_000, dead: 100_000 } */
  readonly keep?: { readonly completed?: number; readonly dead?: number }
  /** Drain on SIGTERM and SIGINT; the second signal forces. @default true */
  readonly handleSignals?: boolean
  /** For jobs whose handler is a module. `false` runs them in this process, as a debugger likes it. */
  readonly sandbox?: SandboxPoolOptions | false
  /** Name for logs and the dashboard; made unique by a suffix. @default 'worker' */
  readonly name?: string
}

export interface SandboxPoolOptions {
  /** Threads and processes at a time; jobs beyond wait in their slots. @default the cores less one, at least 1 */
  readonly size?: number
  /** How long one without work stays. @default '30s' */
  readonly idle?: Duration
  /** How many are there from the start, and stay without work. @default 1 */
  readonly warm?: number
}

export type CompiledWorker = ReturnType<typeof compileWorker>

export function compileWorker(raw: WorkerOptions, jobs: ReadonlyMap<string, AnyJob>) {
  noUnknown(raw, workerOptions, 'worker')
  const concurrency = integer(raw.concurrency ?? defaults.concurrency, 'concurrency', 1, bounds.concurrency)
  const queues = raw.queues ?? [...new Set([...jobs.values()].map((job) => job.policy.queue))]
  if (!Array.isArray(queues) || queues.length === 0) {
    throw invalid('queues', queues, 'at least one queue; pass jobs to new Millrace({ jobs }) or name queues')
  }
  const lease = milliseconds(raw.lease ?? defaults.lease, 'lease')
  if (lease < 100) throw invalid('lease', raw.lease, 'at least 100 ms', 100)
  return {
    concurrency,
    known: new Set([...builtInJobs.keys(), ...jobs.keys()]),
    queues: queues.map((queue, i) => name(queue, `queues[${i}]`)),
    lanes: compileLanes(raw.lanes ?? {}, concurrency),
    lease,
    poll: milliseconds(raw.poll ?? defaults.poll, 'poll'),
    grace: milliseconds(raw.grace ?? defaults.grace, 'grace'),
    abandonAfter: milliseconds(raw.abandonAfter ?? defaults.abandonAfter, 'abandonAfter'),
    prefetch:
      raw.prefetch === undefined || raw.prefetch === 'auto'
        ? ('auto' as const)
        : integer(raw.prefetch, 'prefetch', 0, bounds.prefetch),
    keep: {
      completed: integer(raw.keep?.completed ?? defaults.keep.completed, 'keep.completed', 0, 1e9),
      dead: integer(raw.keep?.dead ?? defaults.keep.dead, 'keep.dead', 0, 1e9),
    },
    handleSignals: raw.handleSignals ?? true,
    sandbox: raw.sandbox === false ? undefined : compilePool(raw.sandbox ?? {}),
    name: name(raw.name ?? 'worker', 'name'),
  }
}

function compilePool(raw: SandboxPoolOptions) {
  noUnknownIn('sandbox', raw, ['size', 'idle', 'warm'])
  const size = raw.size ?? Math.max(1, availableParallelism() - 1)
  return {
    size: integer(size, 'sandbox.size', 1, bounds.sandboxes),
    idle: milliseconds(raw.idle ?? defaults.sandbox.idle, 'sandbox.idle'),
    warm: integer(raw.warm ?? defaults.sandbox.warm, 'sandbox.warm', 0, bounds.sandboxes),
  }
}

const workerOptions = [
  'concurrency',
  'queues',
  'lanes',
  'lease',
  'poll',
  'grace',
  'abandonAfter',
  'prefetch',
  'keep',
  'handleSignals',
  'sandbox',
  'name',
]

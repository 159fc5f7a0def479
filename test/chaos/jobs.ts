/** The jobs of the harness. Handlers write their start before anything else and ignore their signal. */
import {
  type AnyJob,
  defineJob,
  fromModule,
  type JobContext,
  NonRetryableError,
  type SandboxOptions,
} from 'millrace'
import { defineSaga } from 'millrace/saga'
import type pg from 'pg'
import type { Doom } from './fail-points.js'
import type { Journal } from './journal.js'
import type { RecordingStore } from './recording-store.js'

/** What a `work` job does. The default is to return at once. */
export interface Work {
  /** Runs this long without blocking. */
  readonly sleep?: number
  /** Blocks the event loop this long, in the first attempt only. */
  readonly block?: number
  /** Fails in its first attempts. */
  readonly fails?: number
  /** Dies of an error that is not worth a retry. */
  readonly doomed?: boolean
  /** Adds a job with its outcome. */
  readonly child?: boolean
  /** Runs as long as its process says: one process can be slow where the next is not. */
  readonly slow?: boolean
  readonly ballast?: string
}

export type PoisonKind = 'abort' | 'exit' | 'oom' | 'loop'

/** What a handler returns and reports: the lease under which it ran, so that the final state names its writer. */
export interface Signature {
  readonly by: string
}

export interface Stage {
  readonly journal: Journal
  readonly store: RecordingStore
  readonly doom: Doom
  readonly slowMs: number
}

/** Where jobs are only enqueued, nothing runs. */
export const work = defineJob<Work>({ name: 'work', ...policy(), run: unused })
export const poison = defineJob<{ how: PoisonKind }>({ name: 'poison', ...policy(), run: unused })

/** Limits that a few workers reach, for jobs that hold permits while their workers are killed. */
export const limits = { rate: { max: 20, per: 500 }, concurrency: 6, perKey: 2 } as const
export const limited = defineJob<LimitedWork>({ ...limitedPolicy(), run: unused })

/** Takes steps, with a sleep between them. */
export const stepped = defineJob<SteppedWork>({ name: 'stepped', ...policy(), run: unused })
export const steppedSteps = ['first', 'second', 'third', 'fourth'] as const

export interface SteppedWork {
  readonly sleep: number
}

/** Adds jobs by a step and waits for them. */
export const fanned = defineJob<FannedWork>({ name: 'fanned', ...policy(), run: unused })

export interface FannedWork {
  readonly parts: readonly Work[]
}

/** Writes to a table of the program in the transaction that completes it. */
export const booked = defineJob<BookedWork>({ ...bookedPolicy(), run: unused })

export interface BookedWork {
  readonly table: string
  /** How long the transaction is open, more or less. */
  readonly sleep: number
}

/** A transaction that breaks fails the attempt, through no fault of the job. */
function bookedPolicy() {
  return { name: 'booked', ...policy(), maxAttempts: 1_000, transactional: true }
}

export const booking = bookingBy(unused)
export const bookingSteps = ['flight', 'hotel', 'car'] as const

export interface Booking {
  /** The step that fails for good. */
  readonly failsAt?: (typeof bookingSteps)[number]
  /** How often each compensation fails at first. */
  readonly undoFails: number
}

/** A saga whose effects are told to `act`, which counts those that it has been told of by their key. */
function bookingBy(act: (id: string, name: string, key: string) => number) {
  return defineSaga<Booking>({
    name: 'booking',
    ...policy(),
    compensation: { maxAttempts: 100, backoff: { type: 'fixed', initialDelay: 50, jitter: 'none' } },
    steps: ['flight', 'hotel', 'car'].map((name) => ({
      name,
      run({ input, jobId, key }: { input: Booking; jobId: string; key: string }) {
        act(jobId, name, key)
        if (input.failsAt === name) throw new NonRetryableError(`chaos: ${name} is not to be had`)
      },
      compensate({ input, jobId, key }: { input: Booking; jobId: string; key: string }) {
        if (act(jobId, `undo:${name}`, key) <= input.undoFails) throw new Error('chaos: cannot be undone now')
      },
    })),
  })
}

export interface LimitedWork {
  readonly key: string
  readonly tenant: string
  readonly sleep: number
}

function limitedPolicy() {
  return {
    name: 'limited',
    ...policy(),
    limit: { rate: limits.rate, concurrency: limits.concurrency },
    key: ({ key }: LimitedWork) => key,
    keyLimit: { concurrency: limits.perKey },
    group: ({ tenant }: LimitedWork) => tenant,
  }
}

/** Poison in a sandbox. Its handler is a module, so these are the same where they run. */
export const sandboxed = {
  thread: sandboxedBy('thread', { type: 'thread' }),
  process: sandboxedBy('process', { type: 'process' }),
  suspect: sandboxedBy('suspect', { use: 'suspects' }),
}

function sandboxedBy(name: string, sandbox: SandboxOptions) {
  return defineJob({
    name: `sandboxed-${name}`,
    ...policy(),
    timeout: 500,
    run: fromModule<typeof import('./sandboxed.js')>(new URL('./sandboxed.js', import.meta.url)),
    sandbox: { memory: 40, ...sandbox },
  })
}

export function makeJobs(stage: Stage): AnyJob[] {
  return [
    defineJob<Work>({
      name: work.name,
      ...policy(),
      run: (input, context) => runWork(stage, input, context),
    }),
    defineJob<{ how: PoisonKind }>({
      name: poison.name,
      ...policy(),
      run: async ({ how }, context) => {
        sign(stage, context)
        // Long enough for neighbours to be in the middle of their work.
        await sleep(20)
        await poisons[how]()
      },
    }),
    defineJob<LimitedWork>({
      ...limitedPolicy(),
      run: (input, context) => runWork(stage, { sleep: input.sleep }, context),
    }),
    defineJob<SteppedWork>({
      name: stepped.name,
      ...policy(),
      run: (input, context) => runStepped(stage, input, context),
    }),
    ...(stage.store.capabilities.transactions
      ? [
          defineJob<BookedWork>({
            ...bookedPolicy(),
            run: (input, context) => runBooked(stage, input, context),
          }),
        ]
      : []),
    defineJob<FannedWork>({
      name: fanned.name,
      ...policy(),
      run: (input, context) => runFanned(stage, input, context),
    }),
    bookingBy((id, name, key) => {
      stage.journal.write({ e: 'effect', id, name, key })
      const times = (effects.get(key) ?? 0) + 1
      effects.set(key, times)
      return times
    }),
    ...Object.values(sandboxed),
  ]
}

/** Finished jobs are kept, so that the final state tells what became of each. */
function policy() {
  return {
    retain: '1h',
    maxAttempts: 5,
    backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' },
  } as const
}

function unused(): never {
  throw new Error('this process only enqueues')
}

function runWork(stage: Stage, input: Work, context: JobContext): unknown {
  const signature = sign(stage, context)
  if (input.block !== undefined && context.attempt === 1) block(input.block)
  // A handler that returns no promise takes the worker's shorter way.
  if (input.sleep === undefined && input.slow !== true && input.child !== true)
    return conclude(input, context, signature)
  return runLong(stage, input, context, signature)
}

/** Effects of this process, by their key. */
const effects = new Map<string, number>()

async function runStepped(stage: Stage, input: SteppedWork, context: JobContext): Promise<Signature> {
  const signature = sign(stage, context)
  for (const name of steppedSteps) {
    await context.step(name, ({ key }) => {
      stage.journal.write({ e: 'effect', id: context.jobId, name, key })
    })
    if (name === 'second') await context.step.sleep(input.sleep)
  }
  context.progress(signature)
  return signature
}

async function runBooked(stage: Stage, { table, sleep: ms }: BookedWork, context: JobContext) {
  const signature = sign(stage, context)
  const client = await context.tx<pg.ClientBase>()
  await client.query(`INSERT INTO ${table} (job) VALUES ($1)`, [context.jobId])
  await sleep(ms)
  context.progress(signature)
  return signature
}

async function runFanned(stage: Stage, { parts }: FannedWork, context: JobContext): Promise<Signature> {
  const signature = sign(stage, context)
  const options = { onFailure: 'continue', maxCrashes: 1_000 } as const
  const children = await context.step.children('parts', work, parts, options)
  if (children.length !== parts.length) throw new NonRetryableError('chaos: children are missing')
  context.progress(signature)
  return signature
}

async function runLong(stage: Stage, input: Work, context: JobContext, signature: Signature) {
  const duration = input.slow === true ? stage.slowMs : (input.sleep ?? 0)
  await sleep(duration / 2)
  stage.doom.at('mid-handler')
  await sleep(duration / 2)
  if (input.child === true) await context.enqueue(work, {})
  return conclude(input, context, signature)
}

function conclude(input: Work, context: JobContext, signature: Signature): Signature {
  if (input.doomed === true) throw new NonRetryableError('chaos: doomed')
  if (context.attempt <= (input.fails ?? 0)) throw new Error('chaos: fails at first')
  context.progress(signature)
  return signature
}

function sign({ journal, store }: Stage, { jobId, progress }: JobContext): Signature {
  const lease = store.leaseOf(jobId)
  if (lease === undefined) throw new Error(`job ${jobId} started without a claim`)
  journal.write({ e: 'start', ...lease })
  const signature = { by: lease.token }
  progress(signature)
  return signature
}

export const poisons: Record<PoisonKind, () => void | Promise<void>> = {
  abort: () => process.abort(),
  exit: () => process.exit(7),
  oom: () => {
    const hoard: number[][] = []
    for (;;) hoard.push(new Array<number>(100_000).fill(hoard.length))
  },
  loop: () => {
    // Endless for as long as there is a parent to end it.
    const parent = process.ppid
    while (process.ppid === parent);
  },
}

function block(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

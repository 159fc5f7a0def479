/** Short names for what nearly every test does. Outcomes come from core/lifecycle, as a worker's would. */
import assert from 'node:assert/strict'
import { describeFailure } from '../../core/failure.js'
import {
  type ClaimedJob,
  type Failure,
  type JobRecord,
  type JobState,
  jobStates,
  type NewJob,
} from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import { cancelled, completed, crashed, failed, type Outcome, type TotalName } from '../../core/lifecycle.js'
import { compileBackoff } from '../../core/options.js'
import type {
  ClaimRequest,
  Command,
  Counts,
  JobFilter,
  KindCounts,
  OperateReport,
  OrphanedJob,
  Report,
  RetryChange,
  SettleResult,
  Signal,
  Store,
  SweepReport,
  SweepRequest,
} from '../../core/store.js'
import type { StoreHarness } from './harness.js'

export type Test = (
  title: string,
  body: (harness: StoreHarness) => Promise<void>,
  /** Milliseconds, for one that takes longer than others. */
  timeout?: number,
) => void

export const lease = 10_000
export const retention = { completed: 60_000, dead: 120_000 }

let serial = 0

/** Unique in this process; every store under test starts empty. */
export function fresh(prefix: string): string {
  return `${prefix}-${++serial}`
}

export function newJob(fields: Partial<NewJob> = {}): NewJob {
  return {
    id: fresh('job'),
    name: 'greet',
    queue: 'main',
    lane: 2,
    input: '{"to":"you"}',
    delay: 0,
    runAt: undefined,
    maxAttempts: 3,
    maxCrashes: 3,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    traffic: undefined,
    dedupe: undefined,
    family: undefined,
    guard: undefined,
    ...fields,
  }
}

export function newJobs(count: number, fields: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: count }, () => newJob(fields))
}

/** A job that makes a call fail half-way, in engines that look at the input when they insert. */
export function unreadable(fields: Partial<NewJob> = {}): NewJob {
  return Object.defineProperty(newJob(fields), 'input', {
    get: () => {
      throw new Error('this job cannot be read')
    },
  })
}

export function succeeds(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    () => false,
  )
}

export async function insertOne(store: Store, fields: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(fields)
  await store.insert([job])
  return job.id
}

export async function insertMany(
  store: Store,
  count: number,
  fields: Partial<NewJob> = {},
): Promise<string[]> {
  const jobs = newJobs(count, fields)
  await store.insert(jobs)
  return idsOf(jobs)
}

export function idsOf(jobs: readonly { readonly id: string }[]): string[] {
  return jobs.map((job) => job.id)
}

export function sorted(texts: readonly string[]): string[] {
  return [...texts].sort()
}

/** How many there are of each value of a field. */
export function countBy<T extends { readonly [P in K]?: string | undefined }, K extends keyof T>(
  items: readonly T[],
  by: K,
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) {
    const value = String(item[by])
    counts[value] = (counts[value] ?? 0) + 1
  }
  return counts
}

export function claimRequest(count = 1, queues: readonly string[] = ['main'], leaseMs = lease): ClaimRequest {
  const lanes = Array.from({ length: laneCount }, (_, lane) => lane)
  return {
    token: fresh('token'),
    lease: leaseMs,
    room: { shared: count, own: lanes.map(() => 0) },
    picks: lanes.flatMap((lane) => queues.map((queue) => ({ queue, lane, take: count }))),
    turn: 0,
  }
}

export async function claim(
  store: Store,
  count = 1,
  {
    worker = 'worker',
    queues = ['main'],
    leaseMs = lease,
  }: { worker?: string; queues?: string[]; leaseMs?: number } = {},
): Promise<readonly ClaimedJob[]> {
  const request = claimRequest(count, queues, leaseMs)
  const { claimed } = await store.exchange({ worker, settlements: [], claim: request })
  return claimed
}

export async function claimOne(store: Store, worker = 'worker'): Promise<ClaimedJob> {
  const [job, ...others] = await claim(store, 1, { worker })
  assert.ok(job, 'a job is claimed')
  assert.equal(others.length, 0)
  return job
}

/** A job that was inserted and claimed. */
export async function running(
  store: Store,
  fields: Partial<NewJob> = {},
  worker = 'worker',
): Promise<ClaimedJob> {
  const id = await insertOne(store, { queue: fresh('queue'), ...fields })
  const record = await read(store, id)
  const [job] = await claim(store, 1, { worker, queues: [record.queue] })
  assert.equal(job?.id, id)
  return job as ClaimedJob
}

/** A job brought to the state by the verbs that lead there. */
export async function jobIn(store: Store, state: JobState, fields: Partial<NewJob> = {}): Promise<string> {
  if (state === 'pending') return insertOne(store, fields)
  if (state === 'scheduled') return insertOne(store, { delay: 1_000, ...fields })
  const job = await running(store, fields)
  if (state === 'retrying') await settle(store, job, retryIn(1_000))
  if (state === 'blocked') await settle(store, job, wait())
  if (state === 'completed') await settle(store, job, complete())
  if (state === 'dead') await settle(store, job, die())
  if (state === 'cancelled') await settle(store, job, stop())
  return job.id
}

interface SettleOptions {
  readonly worker?: string
  readonly inserts?: readonly NewJob[]
  readonly report?: Report
  readonly rescue?: boolean
}

export async function settle(
  store: Store,
  job: { readonly id: string; readonly token: string },
  outcome: Outcome,
  { worker = 'worker', inserts, report, rescue = false }: SettleOptions = {},
): Promise<SettleResult> {
  const settlements = [{ id: job.id, token: job.token, outcome, inserts, report }]
  const { settled, claimed } = await store.exchange({ worker, settlements, claim: undefined, rescue })
  assert.equal(settled.length, 1, 'one result for each settlement')
  assert.deepEqual(claimed, [], 'nothing is claimed unless it was asked for')
  return settled[0] as SettleResult
}

/** Settles as whoever swept up after a lost worker does. */
export function rescue(store: Store, orphan: OrphanedJob, keep = retention): Promise<SettleResult> {
  return settle(store, orphan, crashed(orphan, lostWorker(orphan.name), keep), {
    worker: orphan.worker,
    rescue: true,
  })
}

export function lostWorker(job: string): Failure {
  return failureOf(job, 'the worker was lost')
}

export function failureOf(job: string, message: string): Failure {
  return describeFailure(job, { name: 'Error', message })
}

/** A failure as text: whether a field is undefined or absent is all the same. */
export function plain(failure: Failure | undefined): string {
  return JSON.stringify(failure, ['name', 'message', 'stack', 'code', 'cause'])
}

export function complete(result?: string, keep = retention): Outcome {
  return completed(result, keep)
}

export function retryIn(delay: number, failure = failureOf('greet', 'try again')): Outcome {
  return failed(
    manyAttemptsLeft,
    { failure, error: undefined, retryable: true, retryAfter: delay },
    backoff,
    retention,
    half,
  )
}

export function die(failure = failureOf('greet', 'it is over'), keep = retention): Outcome {
  return failed(
    manyAttemptsLeft,
    { failure, error: undefined, retryable: false, retryAfter: undefined },
    backoff,
    keep,
    half,
  )
}

export function stop(reason = 'no longer wanted', keep = retention): Outcome {
  return cancelled(reason, keep)
}

/** For ever: until it is cancelled. */
export function wait(): Outcome {
  return { ...complete(), to: 'blocked', spent: false, retain: 0 }
}

const manyAttemptsLeft = { attempt: 1, crashes: 0, maxAttempts: 100, maxCrashes: 100, retryDelay: 0 }
const backoff = compileBackoff({})
const half = () => 0.5

export async function read(store: Store, id: string): Promise<JobRecord> {
  const [record] = await store.get([id])
  assert.ok(record, `job ${id} exists`)
  return record
}

export async function exists(store: Store, id: string): Promise<boolean> {
  const [record] = await store.get([id])
  return record !== undefined
}

export async function stateOf(store: Store, id: string): Promise<JobState> {
  return (await read(store, id)).state
}

/** The store's own time: there is no verb that tells it, but every job carries the time of its insert. */
export async function timeOf(store: Store): Promise<number> {
  const id = await insertOne(store, { queue: 'time' })
  const { createdAt } = await read(store, id)
  await store.operate({ ids: [id] }, { do: 'cancel', reason: 'seen', retain: 0 })
  return createdAt
}

export function sweep(store: Store, request: Partial<SweepRequest> = {}): Promise<SweepReport> {
  return store.sweep({ limit: 1000, keep: { completed: 1000, dead: 1000 }, ...request })
}

/** Reads page after page; says so when the pages do not end. */
export async function listAll(store: Store, filter: JobFilter, limit = 1000): Promise<JobRecord[]> {
  const jobs: JobRecord[] = []
  let cursor: string | undefined
  for (let page = 0; page < 10_000; page++) {
    const found = await store.list({ filter, limit, cursor })
    assert.ok(found.jobs.length <= limit, 'a page holds no more than its limit')
    jobs.push(...found.jobs)
    cursor = found.cursor
    if (cursor === undefined) return jobs
  }
  throw new Error('the pages of list() do not end')
}

/** Goes on with the cursor until there is none. */
export async function operateAll(
  store: Store,
  filter: JobFilter,
  command: Command,
  limit = 1000,
): Promise<OperateReport> {
  const total = {
    affected: [] as string[],
    asked: [] as string[],
    missing: [] as string[],
    refused: [] as string[],
  }
  let cursor: string | undefined
  for (let call = 0; call < 10_000; call++) {
    const report = await store.operate({ filter, limit, cursor }, command)
    const touched = report.affected.length + report.asked.length + report.refused.length
    assert.ok(touched <= limit, 'a call touches no more jobs than its limit')
    for (const key of ['affected', 'asked', 'missing', 'refused'] as const) total[key].push(...report[key])
    cursor = report.cursor
    if (cursor === undefined) return { ...total, cursor }
  }
  throw new Error('the calls of operate() do not end')
}

/** An operator runs a job again that has ended. */
export function replay(
  store: Store,
  id: string,
  change: RetryChange = {},
  delay = 0,
): Promise<OperateReport> {
  return store.operate({ ids: [id] }, { do: 'retry', delay, spacing: 0, change })
}

export type StateCounts = Record<JobState, number>

export async function statesOf(store: Store, queue = 'main'): Promise<StateCounts> {
  return sumStates(await store.counts(), (kind) => kind.queue === queue)
}

export async function statesOfAll(store: Store): Promise<StateCounts> {
  return sumStates(await store.counts(), () => true)
}

function sumStates({ kinds }: Counts, wanted: (kind: KindCounts) => boolean): StateCounts {
  const sums = Object.fromEntries(jobStates.map((state) => [state, 0])) as StateCounts
  for (const kind of kinds) if (wanted(kind)) for (const state of jobStates) sums[state] += kind.states[state]
  return sums
}

export async function totalOf(store: Store, name: TotalName, queue = 'main'): Promise<number> {
  const { kinds } = await store.counts()
  return kinds.filter((kind) => kind.queue === queue).reduce((sum, kind) => sum + kind.totals[name], 0)
}

/** Resolves with the first signal that fits. Subscribed when it returns; there is no time limit but the test's. */
export function nextSignal(store: Store, fits: (signal: Signal) => boolean): Promise<Signal> {
  // An engine may listen with timers that do not keep a process alive; a test that waits has to.
  const alive = setInterval(() => {}, 1000)
  return new Promise((resolve) => {
    const unsubscribe = store.subscribe((signal) => {
      if (!fits(signal)) return
      clearInterval(alive)
      unsubscribe()
      resolve(signal)
    })
  })
}

/** A small generator (mulberry32), so that what it decides is the same every time. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

/**
 * The contract between Millrace and an engine. Batch first, about a dozen verbs.
 *
 * Rules for every engine; `describeStore` in millrace/testing checks them:
 * - A write under a lease compares the token in the same atomic step and answers `lost` when it differs.
 * - Time that decides anything is the store's own clock. Requests carry delays, not dates, except `runAt`.
 * - A verb is atomic: all of a call, or an error and nothing of it.
 * - `insert` is idempotent by id; a settlement repeated is `lost`; a claim repeated with its token returns
 *   the jobs that it already holds.
 * - A job's guard is taken by its claim, and ended by what ends the job, in that same step.
 * - Calls that are made before earlier ones have resolved may be carried out in any order.
 * - The cost of a claim depends on neither backlog, delayed, finished nor dead jobs.
 * - `subscribe` only lowers latency. Everything works, more slowly, when no signal ever arrives.
 */
import type { LinkRecord } from './family.js'
import type { GuardRequest, GuardResult, NewGuard } from './guard.js'
import type { ClaimedJob, JobRecord, JobState, JobTrail, LogLine, NewJob } from './job.js'
import type { Pick, Room } from './lanes.js'
import type { Orphan, Outcome, TotalName } from './lifecycle.js'
import type { DueSchedule, ScheduleChange, ScheduleRecord, ScheduleResult } from './schedule.js'
import type { FieldFilter } from './search.js'
import type { NewSignal, StepRecord } from './step.js'
import type { BreakerPhase } from './traffic/breaker.js'
import type { Dedupe } from './traffic/dedupe.js'
import type { Overflow } from './traffic/depth.js'
import type { GateRef, JobTraffic, TrafficChange, TrafficSettings } from './traffic/settings.js'

export interface Store {
  readonly capabilities: Capabilities
  open(): Promise<void>
  close(): Promise<void>

  /**
   * With `tx`, the caller's own transaction, the jobs exist if and only if it commits; where the driver is
   * synchronous the write has happened, or thrown, when `insert` returns. There a job that its queue refuses or
   * would drop is an error (QUEUE_FULL) and nothing is written: the transaction must not commit without it.
   */
  insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]>
  /**
   * Settles what ended, then claims what is next: one round trip, one commit. Takes pending jobs only; a due
   * one becomes pending by `sweep` or `promote`.
   */
  exchange(request: ExchangeRequest): Promise<ExchangeResult>
  /**
   * Renews the worker's lease and writes what these of its running jobs reported. With an `inventory` it also names the
   * worker's strays, a bounded number of them.
   */
  extend(request: ExtendRequest): Promise<ExtendResult>
  /** Due jobs become ready, finished ones expire, orphans of dead workers are named. Bounded per call. */
  sweep(request: SweepRequest): Promise<SweepReport>
  /**
   * Carries out an operator's command on up to `limit` jobs; `cursor` goes on where the last call ended.
   * Each is met as it is when its turn comes: what was done to one may have woken or revived another.
   * A running job is never removed or changed: it can only be asked to stop.
   */
  operate(selector: Selector, command: Command): Promise<OperateReport>
  /** Changes settings for all processes, at once and for good. */
  configure(setting: Setting): Promise<void>
  /** Takes permits of a limiter, all or none. */
  acquire(request: AcquireRequest): Promise<AcquireResult>
  /** Adds, changes and removes schedules, and fires them: a slot's jobs come with the change that goes past it. */
  schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]>
  /** Wakes the jobs that wait for these keys, and keeps the signals for those that will. */
  signal(signals: readonly NewSignal[]): Promise<SignalResult[]>
  /** Takes, ends and gives back the right to work under a key. */
  guard(request: GuardRequest): Promise<GuardResult>
  /** A transaction of the engine's own for a handler's writes; refused where `capabilities.transactions` is false. */
  begin(): Promise<StoreTransaction>

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]>
  trail(id: string): Promise<JobTrail | undefined>
  list(query: JobQuery): Promise<JobPage>
  counts(): Promise<Counts>
  /** The dead, grouped by cause. */
  causes(): Promise<Cause[]>
  /** What holds jobs up: limits, groups, breakers, with their settings and live values. */
  gates(query: GateQuery): Promise<GatePage>
  /** Children of these parents, in the order of their ids. */
  links(query: LinkQuery): Promise<LinkPage>
  /** By name. */
  schedules(query: ScheduleQuery): Promise<SchedulePage>

  subscribe(listener: (signal: Signal) => void): () => void
}

export interface Capabilities {
  readonly engine: string
  /** Survives the process. */
  readonly durable: boolean
  /** Other processes can share the same jobs. */
  readonly shared: boolean
  /** `insert` takes the caller's transaction. */
  readonly transactions: boolean
  /** A server of its own does the work: an exchange that is sent early is done while this process goes on. */
  readonly remote?: boolean
  /** A call need not wait for the answer of another; which of them is done first is open. */
  readonly pipelined?: boolean
}

/**
 * `duplicate`: another job, or this one, stands already. `replaced`: the one that stands has taken over what this
 * one brought. `deferred`: inserted, but put off because its queue is full. `shed` and `full`: not inserted.
 * `orphaned`: not inserted, because a parent does not exist or waits no more; or because a job has its id that is no
 * child of these parents, as when a flow is gone but for some of its parts: then none of the flow is.
 */
export interface InsertResult {
  readonly status: 'inserted' | 'duplicate' | 'replaced' | 'deferred' | 'shed' | 'full' | 'orphaned'
  /** The state of the job that stands; undefined when there is none any more. */
  readonly state: JobState | undefined
  /** The job that stands, when it is not the one that was given. */
  readonly id?: string
  /** Of `shed` and `full`: how full the queue was. */
  readonly overflow?: Overflow
}

export interface ExchangeRequest {
  readonly worker: string
  readonly settlements: readonly Settlement[]
  readonly claim: ClaimRequest | undefined
  /** Settles on behalf of a worker that was lost: refused when its lease is valid after all. */
  readonly rescue?: boolean
}

export interface Settlement {
  readonly id: string
  readonly token: string
  readonly outcome: Outcome
  /** Jobs that the handler added; they exist if and only if the settlement is applied. */
  readonly inserts: readonly NewJob[] | undefined
  /** What no `extend` is known to have written. One that carries the same may be on its way; see `logsFrom`. */
  readonly report?: Report | undefined
}

export interface Report {
  readonly progress: string | undefined
  readonly logs: readonly LogLine[] | undefined
  /**
   * How many lines of this run came before these. Lines that an earlier report of the run has brought are not written
   * again; without it, all are.
   */
  readonly logsFrom?: number | undefined
  /** A step that is there already is written anew. */
  readonly steps?: readonly StepRecord[] | undefined
}

export interface ClaimRequest {
  /** Fresh and unguessable for each claim; becomes part of the tokens of the jobs claimed. */
  readonly token: string
  /** Milliseconds of the worker's lease; a claim that takes jobs renews it. */
  readonly lease: number
  readonly room: Room
  readonly picks: readonly Pick[]
  /** Jobs that the worker was given so far: says which of the lines of a lane comes first. */
  readonly turn: number
  /**
   * Until the worker makes another one, jobs that others add may be given to it as well: a claim that it makes at the signal
   * `arriving` brings these at once. For an engine where that saves a round trip.
   */
  readonly lasting?: boolean | undefined
  /** Definitions that the worker has: jobs with limits of others stay where they are. All, when undefined. */
  readonly known?: ReadonlySet<string> | undefined
}

export interface ExchangeResult {
  /** One for each settlement, in order. */
  readonly settled: readonly SettleResult[]
  readonly claimed: readonly ClaimedJob[]
  /** Milliseconds until a limit that holds jobs of the asked queues up opens by itself, if the store knows one. */
  readonly opens: number | undefined
}

/**
 * `cancelled`: applied as a cancel, because one was asked for while the job ran. `waiting`: the job waits, because the
 * child that it would have died of was replayed meanwhile.
 */
export type SettleResult = 'applied' | 'cancelled' | 'waiting' | 'lost'

export interface ExtendRequest {
  readonly worker: string
  readonly lease: number
  readonly held: readonly Held[]
  readonly inventory?: Inventory | undefined
}

/** Together with `held`, all that the worker has: whatever else is under its lease is a stray. */
export interface Inventory {
  /** Jobs whose settlement is on its way. */
  readonly leaving: readonly LeasedJob[]
  /** The tokens of claims that have not been answered yet. */
  readonly claiming: readonly string[]
}

export interface LeasedJob {
  readonly id: string
  readonly token: string
}

/**
 * A job that runs by the store's books, under a worker that does not have it: the answer to its claim was lost for good,
 * or the server forgot what it had acknowledged. Its claim is at least one lease old, so that the answer cannot be on its
 * way. The worker gives it back as one that it had begun, because nobody knows whether it had; since the worker lives,
 * that is no crash.
 */
export interface Stray extends LeasedJob {
  /** The token of its claim. */
  readonly claim: string
  readonly name: string
  readonly queue: string
}

export interface Held extends LeasedJob, Report {
  /** Jobs that its handler added already; they exist if and only if the lease stands. */
  readonly inserts?: readonly NewJob[] | undefined
  /** Fans of its children whose ends it goes on from: these stay as they are, whatever is replayed. */
  readonly closes?: readonly FanClose[] | undefined
}

export interface FanClose {
  readonly fan: string
  /** `Family.replays` before the ends were read. */
  readonly replays: number
}

export interface ExtendResult {
  /** Ids of jobs that this worker no longer holds. Nothing was written for them. */
  readonly lost: readonly string[]
  readonly cancels: readonly { readonly id: string; readonly reason: string }[]
  /** Fans that were not closed: a child was replayed since its end was read. */
  readonly open: readonly string[]
  readonly strays: readonly Stray[]
  /** Ids of jobs whose part of the store does not answer: neither renewed nor lost. What they reported is to be told again. */
  readonly unheard?: readonly string[]
}

export interface SweepRequest {
  readonly limit: number
  /** The most finished jobs to keep in all; the ones closest to their expiry go first. */
  readonly keep: { readonly completed: number; readonly dead: number }
  /**
   * Only now and then, every so many milliseconds: where another process has swept since, an engine may leave it out, so that
   * a hundred of them sweep no more often than one.
   */
  readonly every?: number | undefined
}

export interface SweepReport {
  readonly promoted: number
  readonly pruned: number
  readonly orphans: readonly OrphanedJob[]
  /**
   * Schedules whose slot has come, the longest due first, then those that are stranded; a bounded number. The worker
   * decides what they fire.
   */
  readonly schedules: readonly DueSchedule[]
  /** Milliseconds until the next job is due, by the store's clock. */
  readonly nextDue: number | undefined
  /** The same of the next schedule that is not due yet. */
  readonly nextSlot: number | undefined
  /** The limit was reached; there is more to do. */
  readonly more: boolean
  /** Why parts of the store were not swept, where others were. */
  readonly failed?: readonly unknown[]
}

export interface OrphanedJob extends Orphan {
  readonly id: string
  readonly token: string
  readonly name: string
  readonly queue: string
  readonly lane: number
  /** The attempt that was lost. */
  readonly attempt: number
  readonly worker: string
}

/** Which jobs. A state is needed so that no selector has to look at all jobs there are. */
export interface JobFilter {
  readonly state: JobState
  readonly queue?: string | undefined
  readonly name?: string | undefined
  readonly tag?: string | undefined
  readonly field?: FieldFilter | undefined
  /** Fingerprint of the failure; for dead jobs. */
  readonly cause?: string | undefined
  /** Only dead jobs that a replay can mend; see `isMendable` in core/child-failed.ts. */
  readonly mendable?: boolean | undefined
  /** Bounds on the time of the state: due, started or finished, created for pending. Epoch ms, after ≤ t < before. */
  readonly after?: number | undefined
  readonly before?: number | undefined
}

export type Selector =
  | { readonly ids: readonly string[] }
  | { readonly filter: JobFilter; readonly limit: number; readonly cursor?: string | undefined }

export type Command =
  | { readonly do: 'cancel'; readonly reason: string; readonly retain: number }
  /** The n-th job of this call, from 0 on, is due after `delay` + n × `spacing` ms. */
  | { readonly do: 'retry'; readonly delay: number; readonly spacing: number; readonly change: RetryChange }
  | { readonly do: 'promote' }
  | { readonly do: 'remove' }
  /** All children of these jobs are there; what is already sealed is refused. */
  | { readonly do: 'seal' }

/** What a replayed job gets instead of what it had. */
export interface RetryChange {
  /** Goes with another input; null for a job that belongs to nothing. */
  readonly traffic?: JobTraffic | null
  /** The same, of its dedupe key. */
  readonly dedupe?: Dedupe | null
  /** The same, of its idempotency key. */
  readonly guard?: NewGuard | null
  /** The same, of what it is found by. */
  readonly search?: readonly string[] | null
  readonly input?: string
  readonly lane?: number
  readonly queue?: string
  readonly maxAttempts?: number
  readonly overrides?: string
  /**
   * Forgets the steps of earlier runs and the children that they added, which go on by themselves; as a job that had
   * completed does in any case.
   */
  readonly fresh?: boolean
}

export interface OperateReport {
  /** Jobs that the command changed. */
  readonly affected: readonly string[]
  /** Running jobs that were asked to stop; their worker settles them. */
  readonly asked: readonly string[]
  /** Given ids that exist no more. */
  readonly missing: readonly string[]
  /** Jobs in a state that the command does not apply to. */
  readonly refused: readonly string[]
  readonly cursor: string | undefined
}

export interface JobQuery {
  readonly filter: JobFilter
  readonly limit: number
  readonly cursor?: string | undefined
}

/** May hold fewer jobs than asked for and still have a cursor: a call looks at a bounded number of jobs. */
export interface JobPage {
  readonly jobs: readonly JobRecord[]
  readonly cursor: string | undefined
}

export type Setting =
  | { readonly queue: string; readonly paused: boolean }
  /** `declared` settings come from the code, the others were chosen at run time and win. */
  | { readonly gate: GateRef; readonly change: TrafficChange; readonly declared: boolean }
  /** Ends what a handler's `limited` told a definition or a key. */
  | { readonly gate: GateRef; readonly release: true }
  /** Opens or closes a definition's breaker by hand. */
  | { readonly job: string; readonly breaker: 'open' | 'closed' }

export interface AcquireRequest {
  readonly limiter: string
  readonly permits: number
  /** Who waits, the same each time it asks: several permits at once are put aside for it while it does. */
  readonly waiter?: string | undefined
}

export interface AcquireResult {
  readonly granted: boolean
  /** Milliseconds until it is worth asking again. */
  readonly retryIn: number
  /** The most permits that can ever be taken at once by the present setting; undefined without one. */
  readonly most: number | undefined
}

export interface GateQuery {
  readonly of: GateRef['of']
  /** Groups of this queue, keys of this definition. */
  readonly owner?: string | undefined
  readonly names?: readonly string[] | undefined
  readonly limit: number
  readonly cursor?: string | undefined
}

export interface GatePage {
  readonly gates: readonly GateRecord[]
  readonly cursor: string | undefined
}

export interface GateRecord {
  readonly ref: GateRef
  readonly declared: TrafficSettings
  readonly chosen: TrafficSettings
  /** Jobs that wait; known for groups and keys. */
  readonly pending: number
  readonly running: number
  /** How many may start now; undefined when nothing limits it. */
  readonly room: number | undefined
  /** When it opens by itself, epoch ms; undefined when it is open, or only an end or an operator opens it. */
  readonly opensAt: number | undefined
  readonly breaker: BreakerPhase
  /** Its jobs are suspected to kill workers, since this time. */
  readonly quarantinedAt: number | undefined
}

export interface SignalResult {
  readonly status: 'sent' | 'duplicate'
  /** Jobs that it woke so far. */
  readonly woken: number
}

export interface StoreTransaction {
  /** What the caller writes with: for SQLite a better-sqlite3 database. */
  readonly tx: unknown
  /** Commits what was written with it, together with an outcome. `lost`: rolled back, because the lease is gone. */
  settle(worker: string, settlement: Settlement): Promise<SettleResult>
  /** The same with steps or progress of a job that goes on. */
  report(worker: string, held: Held): Promise<'applied' | 'lost'>
  rollback(): Promise<void>
}

export interface LinkQuery {
  readonly parents: readonly string[]
  /** Only children of this definition. */
  readonly name?: string | undefined
  /** Only children that no step has added. */
  readonly given?: boolean | undefined
  /** Only children whose ids begin so and go on; costs as much as there are of them. */
  readonly prefix?: string | undefined
  /** Only children that died or were cancelled. */
  readonly failed?: boolean | undefined
  readonly limit: number
  readonly cursor?: string | undefined
}

export interface LinkPage {
  readonly links: readonly LinkRecord[]
  readonly cursor: string | undefined
}

export interface ScheduleQuery {
  readonly names?: readonly string[] | undefined
  readonly limit: number
  readonly cursor?: string | undefined
}

export interface SchedulePage {
  readonly schedules: readonly ScheduleRecord[]
  readonly cursor: string | undefined
  /** The store's clock. */
  readonly now: number
}

export interface Counts {
  readonly kinds: readonly KindCounts[]
  /** Queues that do not hand out jobs. */
  readonly paused: readonly string[]
}

/** Counts by state, and totals since the store was made. Kept by every write, so that reading them counts no rows. */
export interface KindCounts {
  readonly queue: string
  readonly name: string
  readonly lane: number
  readonly states: Readonly<Record<JobState, number>>
  readonly totals: Readonly<Record<TotalName, number>>
}

export interface Cause {
  readonly cause: string
  readonly name: string
  readonly message: string
  readonly count: number
  readonly firstAt: number
  readonly lastAt: number
  /** A job that died of it. */
  readonly sample: string
}

export type Signal =
  /**
   * Jobs are about to be added to these queues. A claim that is asked for before the listener returns may go along with
   * them; for an engine where that saves a round trip. What there is to take is told in any case, by `ready`.
   */
  | { readonly type: 'arriving'; readonly queues: ReadonlySet<string> }
  /** Jobs became ready in these queues. */
  | { readonly type: 'ready'; readonly queues: ReadonlySet<string> }
  /** A job or a schedule will be due in `delay` ms. */
  | { readonly type: 'due'; readonly delay: number }
  /** These jobs were settled; the list may hold refused ones too. */
  | { readonly type: 'settled'; readonly settlements: readonly Settlement[] }
  /** These jobs started. */
  | { readonly type: 'claimed'; readonly jobs: readonly ClaimedJob[] }
  /** Some of these jobs have new progress or logs. */
  | { readonly type: 'reported'; readonly held: readonly Held[] }
  /** A running job was asked to stop. */
  | { readonly type: 'cancel' }
  /** A definition's breaker changed. */
  | { readonly type: 'breaker'; readonly job: string; readonly phase: BreakerPhase }
  /** A definition's jobs are suspects now, or are no more. */
  | { readonly type: 'quarantine'; readonly job: string; readonly on: boolean }
  /** Another process changed something. */
  | { readonly type: 'changed' }

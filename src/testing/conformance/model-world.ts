/**
 * What a store must be seen to do, in the plainest way: one map of jobs, every question a scan over it. No
 * index, no counter that could drift, except totals, which are history. Where the contract leaves a choice
 * (which jobs a bounded sweep takes first, who is next among jobs that came back) the world does not choose:
 * `model.ts` checks that the store's choice is allowed and tells the world what it was.
 */
import { type Failure, isFinal, type JobState, jobStates, type LogLine, type NewJob } from '../../core/job.js'
import { heedCancel, type Outcome, type TotalName, totalNames, totalsOf } from '../../core/lifecycle.js'
import type {
  Command,
  InsertResult,
  JobFilter,
  RetryChange,
  Settlement,
  SettleResult,
} from '../../core/store.js'

export interface WorldJob {
  readonly id: string
  readonly name: string
  queue: string
  lane: number
  input: string
  maxAttempts: number
  readonly maxCrashes: number
  overrides: string | undefined
  readonly tags: readonly string[] | undefined
  readonly metadata: string | undefined
  readonly group: string | undefined
  readonly key: string | undefined
  readonly family: undefined
  readonly unwinds: false
  readonly createdAt: number
  /** Order of insertion. */
  readonly place: number
  /** Has never been anywhere but in line since its insert, so first in, first out holds for it. */
  plain: boolean
  state: JobState
  attempt: number
  crashes: number
  dueAt: number | undefined
  finishedAt: number | undefined
  expiresAt: number | undefined
  result: string | undefined
  failure: Failure | undefined
  cancelReason: string | undefined
  progress: string | undefined
  lease: WorldLease | undefined
  history: { worker: string; startedAt: number; endedAt: number; to: JobState; cause: string }[]
  logs: LogLine[]
}

export interface WorldLease {
  readonly worker: string
  readonly token: string
  readonly claim: string
  readonly startedAt: number
}

export type Totals = Record<TotalName, number>
export type Verdict = 'affected' | 'asked' | 'missing' | 'refused'

export class World {
  readonly jobs = new Map<string, WorldJob>()
  readonly paused = new Set<string>()
  readonly totals = new Map<string, Totals>()
  /** When each worker's lease ends. */
  readonly leases = new Map<string, number>()
  #places = 0
  now: number

  constructor(now: number) {
    this.now = now
  }

  insert(jobs: readonly NewJob[]): InsertResult[] {
    return jobs.map((job) => {
      const standing = this.jobs.get(job.id)
      if (standing !== undefined) return { status: 'duplicate', state: standing.state }
      const dueAt = job.runAt ?? this.now + job.delay
      const later = dueAt > this.now
      const { id, name, queue, lane, input, maxAttempts, maxCrashes, overrides, tags, metadata } = job
      this.jobs.set(id, {
        ...{ id, name, queue, lane, input, maxAttempts, maxCrashes, overrides, tags, metadata },
        group: job.traffic?.group,
        key: job.traffic?.key,
        family: undefined,
        unwinds: false,
        createdAt: this.now,
        place: this.#places++,
        plain: !later,
        state: later ? 'scheduled' : 'pending',
        attempt: 0,
        crashes: 0,
        dueAt: later ? dueAt : undefined,
        finishedAt: undefined,
        expiresAt: undefined,
        result: undefined,
        failure: undefined,
        cancelReason: undefined,
        progress: undefined,
        lease: undefined,
        history: [],
        logs: [],
      })
      this.add(job, 'enqueued')
      return { status: 'inserted', state: later ? 'scheduled' : 'pending' }
    })
  }

  isAlive(worker: string): boolean {
    return (this.leases.get(worker) ?? 0) > this.now
  }

  /** The job if this worker holds it under this token, and only then. */
  held(worker: string, id: string, token: string): WorldJob | undefined {
    const job = this.jobs.get(id)
    return job?.lease?.worker === worker && job.lease.token === token ? job : undefined
  }

  settle(worker: string, settlement: Settlement, rescue: boolean): SettleResult {
    const job = this.held(worker, settlement.id, settlement.token)
    if (job === undefined || (rescue && this.isAlive(worker))) return 'lost'
    const outcome = heedCancel(settlement.outcome, job.cancelReason)
    this.#apply(job, outcome, job.lease as WorldLease)
    if (settlement.report?.progress !== undefined) job.progress = settlement.report.progress
    job.logs = [...job.logs, ...(settlement.report?.logs ?? [])].slice(-100)
    this.insert(settlement.inserts ?? [])
    return outcome.to === settlement.outcome.to ? 'applied' : 'cancelled'
  }

  #apply(job: WorldJob, outcome: Outcome, { worker, startedAt }: WorldLease): void {
    const { to, failure } = outcome
    for (const total of totalsOf(outcome)) this.add(job, total)
    if (!outcome.spent) job.attempt -= 1
    if (outcome.crashed) job.crashes += 1
    job.lease = undefined
    job.plain = false
    job.state = to
    job.dueAt = to === 'scheduled' || to === 'retrying' ? this.now + outcome.delay : undefined
    job.finishedAt = isFinal(to) ? this.now : undefined
    job.expiresAt = isFinal(to) ? this.now + outcome.retain : undefined
    job.result = outcome.result
    job.cancelReason = outcome.reason
    if (failure !== undefined) {
      job.failure = failure
      job.history.push({ worker, startedAt, endedAt: this.now, to, cause: failure.cause })
      job.history = job.history.slice(-20)
    }
    if (isFinal(to) && outcome.retain === 0) this.jobs.delete(job.id)
  }

  claim(id: string, lease: WorldLease): void {
    const job = this.jobs.get(id) as WorldJob
    job.state = 'running'
    job.attempt += 1
    job.lease = lease
  }

  makeReady(job: WorldJob): void {
    job.state = 'pending'
    job.dueAt = undefined
    job.plain = false
  }

  /** What the command must answer for this job; changes nothing. */
  judge(id: string, command: Command): Verdict {
    const job = this.jobs.get(id)
    if (job === undefined) return 'missing'
    const { state } = job
    switch (command.do) {
      case 'cancel':
        if (state === 'running') return 'asked'
        return isFinal(state) ? 'refused' : 'affected'
      case 'retry':
        return isFinal(state) ? 'affected' : 'refused'
      case 'promote':
        return state === 'scheduled' || state === 'retrying' ? 'affected' : 'refused'
      case 'remove':
        return state === 'running' ? 'refused' : 'affected'
      case 'seal':
        return 'refused'
    }
  }

  /** Carries out a command that `judge` allows; `index` counts the jobs that one call has affected so far. */
  operate(id: string, command: Command, index: number): void {
    const job = this.jobs.get(id) as WorldJob
    switch (command.do) {
      case 'cancel':
        job.cancelReason = command.reason
        if (job.state !== 'running') this.#cancel(job, command.retain)
        return
      case 'retry':
        this.#retry(job, command.change, command.delay + index * command.spacing)
        return
      case 'promote':
        this.makeReady(job)
        return
      case 'remove':
        this.jobs.delete(id)
        return
      case 'seal':
        return
    }
  }

  #cancel(job: WorldJob, retain: number): void {
    this.add(job, 'cancelled')
    job.state = 'cancelled'
    job.plain = false
    job.dueAt = undefined
    job.finishedAt = this.now
    job.expiresAt = this.now + retain
    if (retain === 0) this.jobs.delete(job.id)
  }

  #retry(job: WorldJob, change: RetryChange, delay: number): void {
    Object.assign(job, change)
    job.state = delay > 0 ? 'scheduled' : 'pending'
    job.plain = false
    job.dueAt = delay > 0 ? this.now + delay : undefined
    job.attempt = 0
    job.crashes = 0
    job.finishedAt = undefined
    job.expiresAt = undefined
    job.result = undefined
    job.cancelReason = undefined
    job.progress = undefined
  }

  matching(filter: JobFilter): WorldJob[] {
    return this.all((job) => {
      const at = job.dueAt ?? job.lease?.startedAt ?? job.finishedAt ?? job.createdAt
      return (
        job.state === filter.state &&
        (filter.queue === undefined || filter.queue === job.queue) &&
        (filter.name === undefined || filter.name === job.name) &&
        (filter.tag === undefined || (job.tags ?? []).includes(filter.tag)) &&
        (filter.cause === undefined || filter.cause === job.failure?.cause) &&
        (filter.after === undefined || filter.after <= at) &&
        (filter.before === undefined || at < filter.before)
      )
    })
  }

  orphans(): WorldJob[] {
    return this.all((job) => job.lease !== undefined && !this.isAlive(job.lease.worker))
  }

  waiting(): WorldJob[] {
    return this.all((job) => job.dueAt !== undefined)
  }

  inLine(queue: string, lane: number): WorldJob[] {
    return this.all((job) => job.state === 'pending' && job.queue === queue && job.lane === lane)
  }

  all(wanted: (job: WorldJob) => boolean): WorldJob[] {
    return [...this.jobs.values()].filter(wanted)
  }

  add(job: { queue: string; name: string; lane: number }, total: TotalName): void {
    const key = kindKey(job)
    const totals = this.totals.get(key) ?? zeroes(totalNames)
    totals[total] += 1
    this.totals.set(key, totals)
  }

  /** Counts by kind, counted afresh. */
  states(): Map<string, Record<JobState, number>> {
    const counts = new Map<string, Record<JobState, number>>()
    for (const job of this.jobs.values()) {
      const key = kindKey(job)
      const states = counts.get(key) ?? zeroes(jobStates)
      states[job.state] += 1
      counts.set(key, states)
    }
    return counts
  }
}

export function kindKey({ queue, name, lane }: { queue: string; name: string; lane: number }): string {
  return `${queue} ${name} ${lane}`
}

function zeroes<K extends string>(keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>
}

export function nonZero(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0))
}

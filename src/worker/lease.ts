import type { Runtime } from '../client/runtime.js'
import { MillraceError } from '../core/errors.js'
import type { ClaimedJob } from '../core/job.js'
import type { ExtendRequest, ExtendResult, Held, LeasedJob, Report, Stray } from '../core/store.js'
import { nextTurn } from '../system/turn.js'
import type { Run } from './run.js'
import { giveBackStrays } from './strays.js'

export interface LeaseHolder {
  /** Jobs in slots. */
  runs(): Iterable<Run>
  /** Jobs claimed and not started. */
  unstarted(): Iterable<ClaimedJob>
  /** Jobs whose outcome is on its way. */
  leaving(): Iterable<ClaimedJob>
  /** The token of the claim that is on its way, or whose answer never came. */
  claiming(): readonly string[]
  /** The lease with this token is gone; the job may be held again under another. */
  lost(id: string, token: string): void
  cancel(id: string, reason: string): void
}

/** Reports of running jobs are gathered this long before they are written. */
const reportMs = 100

/**
 * Keeps the worker's lease: one renewal for all of its jobs, every third of the lease. The same exchange
 * writes progress and logs, and brings back which jobs were lost, which are to be cancelled, and which it renews
 * without having them.
 */
export class LeaseKeeper {
  readonly #runtime: Runtime
  readonly #worker: string
  readonly #lease: number
  readonly #holder: LeaseHolder
  #renewedAt: number
  /** The same by the wall clock, which is what leases are judged by. */
  #renewedWall: number
  #beating: Promise<void> | undefined
  #again = false
  #cancelTimer: (() => void) | undefined
  #cancelReport: (() => void) | undefined
  #cancelLook: (() => void) | undefined
  #cancelWait: (() => void) | undefined
  #stopped = false

  constructor(runtime: Runtime, worker: string, lease: number, holder: LeaseHolder) {
    this.#runtime = runtime
    this.#worker = worker
    this.#lease = lease
    this.#holder = holder
    this.#renewedAt = runtime.clock.monotonic()
    this.#renewedWall = runtime.clock.now()
  }

  /** Registers the worker and goes on renewing. */
  async start(): Promise<void> {
    await this.#renew()
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer?.()
    this.#cancelReport?.()
    this.#cancelLook?.()
    this.#cancelWait?.()
  }

  /** A blocked event loop or a clock that was set forward may have made it late: who judges leases asks first. */
  async beatIfLate(): Promise<void> {
    const { clock } = this.#runtime
    const late = Math.max(clock.monotonic() - this.#renewedAt, clock.now() - this.#renewedWall)
    if (late > this.#lease / 2) await this.beat()
  }

  /** Soon, so that reports of one moment share a write. */
  beatSoon(): void {
    if (this.#cancelReport !== undefined || this.#stopped) return
    this.#cancelReport = this.#runtime.clock.after(reportMs, () => {
      this.#cancelReport = undefined
      void this.beat()
    })
  }

  /** Another process changed something: it may have cancelled a job of ours. Reads, writes nothing. */
  lookSoon(): void {
    if (this.#cancelLook !== undefined || this.#stopped) return
    this.#cancelLook = this.#runtime.clock.after(reportMs, () => {
      this.#cancelLook = undefined
      void this.#look().catch((error: unknown) => this.#failed(error))
    })
  }

  async #look(): Promise<void> {
    const ids = [...this.#holder.runs()].map((run) => run.job.id)
    for (const job of await this.#runtime.store.get(ids)) {
      if (job?.state !== 'running' || job.worker !== this.#worker) continue
      if (job.cancelReason !== undefined) this.#holder.cancel(job.id, job.cancelReason)
    }
  }

  beat(): Promise<void> {
    if (this.#beating !== undefined) {
      // What is asked for now may be too late for the one on its way.
      this.#again = true
      return this.#beating
    }
    this.#beating = this.#renew()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#beating = undefined
        if (this.#again && !this.#stopped) this.beatSoon()
        this.#again = false
      })
    return this.#beating
  }

  #schedule(): void {
    if (this.#stopped) return
    this.#cancelTimer = this.#runtime.clock.after(this.#lease / 3, () => {
      void this.beat().then(() => this.#schedule())
    })
  }

  async #renew(): Promise<void> {
    const reports: [Run, Report][] = []
    const newest = new Map<string, Held>()
    const hold = (held: Held) => {
      // Held twice: it was lost and claimed again, and only the later lease can still stand.
      const older = newest.get(held.id)
      if (older !== undefined) this.#holder.lost(older.id, older.token)
      newest.set(held.id, held)
    }
    for (const run of [...this.#holder.runs()]) {
      if (run.ended) continue
      const report = run.report()
      if (report !== undefined) reports.push([run, report])
      hold({ id: run.job.id, token: run.job.token, ...(report ?? nothing) })
    }
    for (const job of this.#holder.unstarted()) hold({ id: job.id, token: job.token, ...nothing })
    const held = [...newest.values()]
    const sentAt = this.#runtime.clock.monotonic()
    const { lost, cancels, strays, unheard } = await this.#answerOf(sentAt, {
      worker: this.#worker,
      lease: this.#lease,
      held,
      inventory: { leaving: [...this.#leaving()], claiming: this.#holder.claiming() },
    })
    this.#renewedAt = sentAt
    this.#renewedWall = this.#runtime.clock.now()
    for (const [run, report] of reports) if (unheard?.includes(run.job.id) !== true) run.written(report)
    for (const id of lost) this.#holder.lost(id, newest.get(id)?.token ?? '')
    for (const { id, reason } of cancels) this.#holder.cancel(id, reason)
    if (strays.length > 0) await this.#giveBack(strays)
  }

  *#leaving(): Generator<LeasedJob, void> {
    for (const { ended, job } of this.#holder.runs()) if (ended) yield { id: job.id, token: job.token }
    for (const { id, token } of this.#holder.leaving()) yield { id, token }
  }

  /** The question may have been on its way for long: what the worker has got since then is none. */
  #giveBack(strays: readonly Stray[]): Promise<void> {
    const claiming = this.#holder.claiming()
    const mine = new Set<string>()
    for (const { job } of this.#holder.runs()) mine.add(`${job.id} ${job.token}`)
    for (const { id, token } of [...this.#holder.unstarted(), ...this.#leaving()]) mine.add(`${id} ${token}`)
    const unknown = strays.filter(
      ({ id, token, claim }) => !claiming.includes(claim) && !mine.has(`${id} ${token}`),
    )
    return giveBackStrays(this.#runtime, this.#worker, unknown)
  }

  /** A store that goes on trying may do so for longer than the lease. */
  async #answerOf(sentAt: number, request: ExtendRequest): Promise<ExtendResult> {
    const { clock, store } = this.#runtime
    let isOpen = true
    const left = Math.max(this.#renewedAt + this.#lease - sentAt, this.#lease / 3)
    this.#cancelWait = clock.after(left, () => {
      // A process that was busy itself first reads what has come meanwhile.
      void nextTurn().then(() => isOpen && !this.#stopped && this.#dropAll())
    })
    try {
      return await store.extend(request)
    } finally {
      isOpen = false
      this.#cancelWait()
    }
  }

  #failed(error: unknown): void {
    if (this.#stopped) return
    this.#runtime.events.emit('error', { error, during: 'extend' })
    if (this.#runtime.clock.monotonic() - this.#renewedAt >= this.#lease) this.#dropAll()
  }

  /** Past the lease without an answer, others may run these jobs already: stop before doing more harm. */
  #dropAll(): void {
    const running = [...this.#holder.runs()].map(({ job }) => job)
    // These first: a slot that gets free is not to be theirs.
    for (const { id, token } of [...this.#holder.unstarted(), ...running]) this.#holder.lost(id, token)
  }
}

const nothing: Report = { progress: undefined, logs: undefined }

export function leaseLost(id: string): MillraceError {
  return new MillraceError(
    'LEASE_LOST',
    `the lease of job ${id} was lost; another worker may run it, and this attempt can write nothing more`,
  )
}

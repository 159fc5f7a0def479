/**
 * The judge: a pure function from what the processes wrote down and what the store holds in the end to a
 * verdict. Invariants are named as in the reliability notes. A job that ran again before it completed is
 * counted (delivery is at least once); what was lost, run after its completion, or written by somebody
 * without the lease is a violation.
 */
import type { JobState } from 'millrace'
import type { HistoryEvent, Lease } from './journal.js'

export interface FinalJob {
  readonly id: string
  readonly state: JobState
  readonly attempt: number
  readonly crashes: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  /** The lease that wrote the result and the last progress. */
  readonly resultBy: string | undefined
  readonly progressBy: string | undefined
  readonly failureCode?: string | undefined
  /** Jobs that wait for it. */
  readonly parents?: readonly string[]
}

/** A worker that stopped working, and the jobs that it held then. */
export interface Loss {
  readonly worker: string
  readonly t: number
  readonly held: readonly string[]
}

/** Epoch milliseconds. */
export interface Period {
  readonly from: number
  readonly to: number
}

export interface Evidence {
  readonly events: readonly HistoryEvent[]
  readonly jobs: readonly FinalJob[]
  /** The store's own counts by state. */
  readonly counts: Readonly<Record<string, number>>
  readonly losses: readonly Loss[]
  /** Time from the last fault to an empty backlog; undefined when that never came. */
  readonly drainedAfterMs: number | undefined
  readonly limits: { readonly drainMs: number; readonly recoveryMs: number }
  /** Error codes that this fault may show to users. */
  readonly allowedErrors: readonly string[]
  /**
   * Answers got lost, so that the store asked again by itself: a settlement that was applied may have been answered with
   * `lost`, because it was the second one.
   */
  readonly repeats?: boolean
  /**
   * The server was made to forget what it wrote in these periods, as its setting allows. What was acknowledged in them may be
   * lost and what completed in them may run again: both are counted, and jobs of which something happened then may contradict
   * what was heard of them.
   */
  readonly forgotten?: readonly Period[]
  /**
   * There are several servers. A call that needs more than one is answered when all of them have done their parts, and one may have
   * forgotten its own by then. And a job may move from one to another: which has forgotten the arrival has forgotten the job.
   */
  readonly several?: boolean
}

export type Invariant =
  | 'I1'
  | 'I2'
  | 'I3'
  | 'I4'
  | 'I5'
  | 'I6'
  | 'I7'
  | 'I8'
  | 'I9'
  | 'I10'
  | 'I11'
  | 'I12'
  | 'I13'
  | 'errors'
  | 'crash'
  | 'damage'
  | 'harness'

export interface Violation {
  readonly invariant: Invariant
  readonly text: string
}

export interface Verdict {
  readonly acked: number
  readonly ambiguous: number
  readonly lost: number
  /** Starts after an accepted completion. */
  readonly rerun: number
  /** Starts that repeat an attempt whose outcome was never stored. */
  readonly duplicates: number
  readonly staleAttempts: number
  readonly refusedStale: number
  readonly recoveries: readonly number[]
  readonly violations: readonly Violation[]
}

export function check(evidence: Evidence): Verdict {
  const history = index(evidence)
  const violations: Violation[] = []
  const accuse = (invariant: Invariant, text: string) => violations.push({ invariant, text })

  const lost = checkNothingLost(evidence, history, accuse)
  checkNothingUnexpected(evidence, history, accuse)
  const rerun = checkNoRunAfterCompletion(evidence, history, accuse)
  const stale = checkStaleWrites(history, accuse)
  checkOneTerminalWrite(history, accuse)
  checkOneLiveLease(evidence, history, accuse)
  checkWriters(evidence, history, accuse)
  const ambiguous = checkConservation(evidence, history, lost, accuse)
  checkAttempts(evidence, accuse)
  checkDue(history, accuse)
  checkDrained(evidence, accuse)
  const recoveries = checkRecovery(evidence, history, accuse)
  checkErrors(evidence, accuse)

  const duplicates = countDuplicates(history)
  return { acked: history.acked.size, ambiguous, lost, rerun, duplicates, ...stale, recoveries, violations }
}

type Accuse = (invariant: Invariant, text: string) => void
type Event<E extends HistoryEvent['e']> = Extract<HistoryEvent, { e: E }>

interface JobHistory {
  readonly claims: Event<'claim'>[]
  readonly starts: Event<'start'>[]
  readonly tries: Event<'settle-try'>[]
  readonly results: Event<'settle-result'>[]
}

interface History {
  readonly tried: Map<string, Event<'enqueue-try'>>
  /** When it was acknowledged first. */
  readonly acked: Map<string, number>
  readonly refused: Map<string, string>
  readonly jobs: Map<string, JobHistory>
  /** Jobs that the server remembers all of. */
  readonly remembered: Map<string, JobHistory>
}

function index({ events, repeats = false, forgotten = [], several = false }: Evidence): History {
  const history: History = {
    tried: new Map(),
    acked: new Map(),
    refused: new Map(),
    jobs: new Map(),
    remembered: new Map(),
  }
  const of = (id: string) => {
    const job = history.jobs.get(id) ?? { claims: [], starts: [], tries: [], results: [] }
    history.jobs.set(id, job)
    return job
  }
  for (const event of events) {
    switch (event.e) {
      case 'enqueue-try':
        // A settlement that is sent again adds the same jobs again; the first time counts.
        if (!history.tried.has(event.id)) history.tried.set(event.id, event)
        break
      case 'enqueue-ack':
        if (!history.acked.has(event.id)) history.acked.set(event.id, event.t)
        break
      case 'enqueue-refused':
        if (!(repeats && event.code === 'LEASE_LOST')) history.refused.set(event.id, event.code)
        break
      case 'claim':
        // A claim that is asked again with its token is the same lease.
        if (
          !of(event.id).claims.some(({ token, worker }) => token === event.token && worker === event.worker)
        ) {
          of(event.id).claims.push(event)
        }
        break
      case 'start':
        of(event.id).starts.push(event)
        break
      case 'settle-try':
        of(event.id).tries.push(event)
        break
      case 'settle-result':
        of(event.id).results.push(event)
        break
      case 'error':
      case 'lost':
      case 'effect':
      case 'step-kept':
      case 'die':
        break
    }
  }
  for (const [id, job] of history.jobs) {
    job.claims.sort((a, b) => a.claimedAt - b.claimedAt || a.attempt - b.attempt || a.t - b.t)
    const isForgotten =
      [...job.claims, ...job.tries, ...job.results].some(({ t }) => isWithin(forgotten, t)) ||
      (several && job.results.some((result) => touches(forgotten, settling(job, result))))
    if (!isForgotten) history.remembered.set(id, job)
  }
  return history
}

function isWithin(periods: readonly Period[], t: number): boolean {
  return touches(periods, { from: t, to: t })
}

function touches(periods: readonly Period[], { from, to }: Period): boolean {
  return periods.some((period) => period.from <= to && from <= period.to)
}

/** From when a settlement was sent until it was answered. */
function settling({ tries }: JobHistory, { token, t }: Event<'settle-result'>): Period {
  return { from: tries.find((one) => one.token === token)?.t ?? t, to: t }
}

/** I1. Nothing is ever removed here (retention is an hour), so a job that was acknowledged has a row. */
function checkNothingLost(
  { jobs, forgotten = [], several = false }: Evidence,
  { tried, acked, jobs: histories }: History,
  accuse: Accuse,
): number {
  const mayHaveMoved = (job: JobHistory | undefined) =>
    job?.results.some((result) => touches(forgotten, settling(job, result))) === true
  const isExcused = (id: string, t: number) => {
    if (!several) return isWithin(forgotten, t)
    return touches(forgotten, { from: tried.get(id)?.t ?? t, to: t }) || mayHaveMoved(histories.get(id))
  }
  const found = new Set(jobs.map((job) => job.id))
  const missing = [...acked].filter(([id]) => !found.has(id))
  const lost = missing.filter(([id, t]) => !isExcused(id, t)).map(([id]) => id)
  if (lost.length > 0) accuse('I1', `${lost.length} acknowledged jobs are lost: ${some(lost)}`)
  return missing.length
}

/** I2. */
function checkNothingUnexpected(
  { jobs }: Evidence,
  { tried, acked, refused }: History,
  accuse: Accuse,
): void {
  const unknown = jobs.filter((job) => !tried.has(job.id)).map((job) => job.id)
  if (unknown.length > 0) accuse('I2', `${unknown.length} jobs that nobody enqueued: ${some(unknown)}`)
  const despite = jobs.filter((job) => refused.has(job.id) && !acked.has(job.id)).map((job) => job.id)
  if (despite.length > 0)
    accuse('I2', `${despite.length} jobs exist although their enqueue was refused: ${some(despite)}`)
}

/**
 * I3. A completion is accepted only under the lease of its time, so a claim that came after that lease's
 * claim came after the completion too: comparing claims needs no trust in the order of two processes' lines.
 */
function checkNoRunAfterCompletion(evidence: Evidence, { jobs }: History, accuse: Accuse): number {
  const writers = new Map(
    evidence.jobs.map((job) => [job.id, job.state === 'completed' ? job.resultBy : undefined]),
  )
  const { forgotten = [], several = false } = evidence
  const isForgotten = (job: JobHistory, result: Event<'settle-result'>) =>
    several ? touches(forgotten, settling(job, result)) : isWithin(forgotten, result.t)
  const rerun: string[] = []
  let excused = 0
  for (const [id, job] of jobs) {
    const { claims, starts, results } = job
    const accepted = results.find((result) => result.to === 'completed' && result.result === 'applied')
    const token = accepted?.token ?? writers.get(id)
    const completing = claims.find((claim) => claim.token === token)
    if (completing === undefined) continue
    const again = starts.filter((start) => isLater(start, completing))
    if (accepted !== undefined && isForgotten(job, accepted)) excused += again.length
    else rerun.push(...again.map(() => id))
  }
  if (rerun.length > 0) accuse('I3', `${rerun.length} starts of jobs that had completed: ${some(rerun)}`)
  return rerun.length + excused
}

function isLater(lease: Lease, other: Lease): boolean {
  return lease.token !== other.token && (lease.claimedAt > other.claimedAt || lease.attempt > other.attempt)
}

/** I3. A settlement is stale when its lease was given to another, or taken away, before it was even tried. */
function checkStaleWrites(
  { remembered }: History,
  accuse: Accuse,
): { staleAttempts: number; refusedStale: number } {
  let staleAttempts = 0
  let refusedStale = 0
  const accepted: string[] = []
  for (const [id, job] of remembered) {
    for (const [i, attempt] of job.tries.entries()) {
      if (attempt.rescue || !wasSuperseded(job, attempt)) continue
      const result = answerTo(job, attempt, i)
      if (result === undefined) continue
      staleAttempts++
      if (result.result === 'lost') refusedStale++
      else accepted.push(id)
    }
  }
  if (accepted.length > 0)
    accuse('I3', `${accepted.length} stale settlements were accepted: ${some(accepted)}`)
  return { staleAttempts, refusedStale }
}

function wasSuperseded({ claims, results }: JobHistory, { token, t }: Event<'settle-try'>): boolean {
  const own = claims.find((claim) => claim.token === token)
  const given = claims.some((claim) => own !== undefined && isLater(claim, own) && claim.t < t)
  return given || results.some((r) => r.rescue && r.token === token && r.result !== 'lost' && r.t < t)
}

/** The n-th try under a lease gets the n-th answer under it; a process that was killed gets none. */
function answerTo({ tries, results }: JobHistory, { token }: Event<'settle-try'>, i: number) {
  const before = tries.slice(0, i).filter((other) => !other.rescue && other.token === token).length
  return results.filter((result) => !result.rescue && result.token === token)[before]
}

/** I4. */
function checkOneTerminalWrite({ remembered }: History, accuse: Accuse): void {
  const final: readonly JobState[] = ['completed', 'dead', 'cancelled']
  const ended: string[] = []
  const settled: string[] = []
  for (const [id, { results }] of remembered) {
    const applied = results.filter((result) => result.result !== 'lost')
    if (applied.filter((result) => final.includes(result.to)).length > 1) ended.push(id)
    if (new Set(applied.map((result) => result.token)).size < applied.length) settled.push(id)
  }
  if (ended.length > 0)
    accuse('I4', `${ended.length} jobs with more than one accepted terminal write: ${some(ended)}`)
  if (settled.length > 0)
    accuse('I4', `${settled.length} jobs settled twice under one lease: ${some(settled)}`)
}

/** I4. Before a job is claimed again, somebody must have tried to end the lease before. */
function checkOneLiveLease({ repeats = false }: Evidence, { remembered }: History, accuse: Accuse): void {
  const tokens = new Set<string>()
  const twice: string[] = []
  const overlapping: string[] = []
  for (const [id, job] of remembered) {
    for (const [i, claim] of job.claims.entries()) {
      if (tokens.has(claim.token)) twice.push(claim.token)
      tokens.add(claim.token)
      const next = job.claims[i + 1]
      if (
        next !== undefined &&
        next.claimedAt > claim.claimedAt &&
        !couldHaveEnded(job, claim, next, repeats)
      )
        overlapping.push(id)
    }
  }
  if (twice.length > 0) accuse('I4', `${twice.length} tokens were given out twice: ${some(twice)}`)
  if (overlapping.length > 0) {
    accuse('I4', `${overlapping.length} jobs were claimed while another lease was live: ${some(overlapping)}`)
  }
}

/** A settlement of the lease was applied before the next claim, or sent and never answered, or not the first time. */
function couldHaveEnded(
  { tries, results }: JobHistory,
  { token }: Lease,
  next: Event<'claim'>,
  repeats: boolean,
): boolean {
  const sent = tries.filter((attempt) => attempt.token === token)
  const answers = results.filter((result) => result.token === token)
  return (
    sent.some((attempt) => attempt.t <= next.t) &&
    // Who comes later, to rescue it once more, is answered too.
    (repeats || sent.length > answers.length || answers.some((result) => result.result !== 'lost'))
  )
}

/** I3, I4. What the final state shows was written under the lease whose completion was accepted. */
function checkWriters({ jobs }: Evidence, { remembered }: History, accuse: Accuse): void {
  const results: string[] = []
  const progress: string[] = []
  for (const { id, state, resultBy, progressBy } of jobs) {
    if (state !== 'completed' || resultBy === undefined) continue
    if (!remembered.has(id)) continue
    const accepted = remembered
      .get(id)
      ?.results.find((r) => r.to === 'completed' && r.result === 'applied')?.token
    if (accepted !== undefined && accepted !== resultBy) results.push(id)
    if (progressBy !== undefined && progressBy !== resultBy) progress.push(id)
  }
  if (results.length > 0)
    accuse('I3', `${results.length} jobs show the result of another lease: ${some(results)}`)
  if (progress.length > 0)
    accuse('I3', `${progress.length} jobs show the progress of another lease: ${some(progress)}`)
}

/** I5, and the store's own counts tell the same. */
function checkConservation(
  { jobs, counts, forgotten = [] }: Evidence,
  { tried, acked, refused }: History,
  lost: number,
  accuse: Accuse,
): number {
  const excused = forgotten.length > 0 ? lost : 0
  const ambiguous = [...tried.keys()].filter((id) => !acked.has(id) && !refused.has(id)).length
  if (jobs.length < acked.size - excused || jobs.length > acked.size + ambiguous) {
    accuse('I5', `${jobs.length} jobs, acknowledged ${acked.size}, ambiguous ${ambiguous}`)
  }
  const byState: Record<string, number> = {}
  for (const { state } of jobs) byState[state] = (byState[state] ?? 0) + 1
  for (const state of new Set([...Object.keys(byState), ...Object.keys(counts)])) {
    const [rows, counted] = [byState[state] ?? 0, counts[state] ?? 0]
    if (rows !== counted) accuse('I5', `${rows} jobs are ${state}, the store counts ${counted}`)
  }
  return ambiguous
}

/** I11. */
function checkAttempts({ jobs }: Evidence, accuse: Accuse): void {
  const tried = jobs.filter((job) => job.attempt > job.maxAttempts + job.maxCrashes).map((job) => job.id)
  const crashed = jobs.filter((job) => job.crashes > job.maxCrashes).map((job) => job.id)
  if (tried.length > 0) accuse('I11', `${tried.length} jobs had too many attempts: ${some(tried)}`)
  if (crashed.length > 0)
    accuse('I11', `${crashed.length} jobs crashed more often than their cap: ${some(crashed)}`)
}

/** I11. A delay counts from a moment after the call, so the time of the call plus the delay is a lower bound. */
function checkDue({ tried, remembered }: History, accuse: Accuse): void {
  const early: string[] = []
  for (const [id, { claims, starts, tries, results }] of remembered) {
    const enqueued = tried.get(id)
    const due = enqueued === undefined ? 0 : enqueued.t + enqueued.delay
    for (const start of starts) if (start.t < due) early.push(`${id} by ${due - start.t} ms`)
    for (const result of results) {
      if (result.result !== 'applied' || result.delay === 0) continue
      const sent = tries.find((attempt) => attempt.token === result.token && attempt.to === result.to)
      const own = claims.find((claim) => claim.token === result.token)
      const next = own === undefined ? undefined : claims.find((claim) => isLater(claim, own))
      if (sent === undefined || next === undefined) continue
      const ahead = sent.t + result.delay - next.claimedAt
      if (ahead > 0) early.push(`${id} by ${ahead} ms, a retry`)
    }
  }
  if (early.length > 0) accuse('I11', `${early.length} starts before the job was due: ${some(early)}`)
}

/** I13. */
function checkDrained({ jobs, drainedAfterMs, limits }: Evidence, accuse: Accuse): void {
  if (drainedAfterMs !== undefined) return
  const live = jobs.filter(({ state }) => !['completed', 'dead', 'cancelled'].includes(state))
  const list = some(live.map(({ id, state }) => `${id} ${state}`))
  accuse('I13', `${live.length} jobs are still live ${limits.drainMs} ms after the last fault: ${list}`)
}

/** I13. From the loss of a worker to the next start of each job that it held. */
function checkRecovery({ losses, limits }: Evidence, { jobs }: History, accuse: Accuse): number[] {
  const recoveries: number[] = []
  for (const { worker, t, held } of losses) {
    const late: string[] = []
    for (const id of held) {
      const next = jobs.get(id)?.starts.find((start) => start.t >= t && start.worker !== worker)
      if (next === undefined) continue // died of its crashes, or the drain has accused it already
      recoveries.push(next.t - t)
      if (next.t - t > limits.recoveryMs) late.push(`${id} after ${next.t - t} ms`)
    }
    if (late.length > 0) accuse('I13', `${late.length} jobs of ${worker} came back late: ${some(late)}`)
  }
  return recoveries.sort((a, b) => a - b)
}

function checkErrors({ events, allowedErrors }: Evidence, accuse: Accuse): void {
  const shown = new Map<string, { count: number; message: string }>()
  for (const event of events) {
    if (event.e !== 'error' && event.e !== 'enqueue-refused') continue
    if (event.code === 'LEASE_LOST' || allowedErrors.includes(event.code)) continue
    const message = event.e === 'error' ? `${event.during}: ${event.message}` : 'enqueue'
    shown.set(event.code, { count: (shown.get(event.code)?.count ?? 0) + 1, message })
  }
  for (const [code, { count, message }] of shown) {
    accuse('errors', `users were shown ${code} ${count} times, such as ${message}`)
  }
}

function countDuplicates({ jobs }: History): number {
  let duplicates = 0
  for (const { starts, results } of jobs.values()) {
    const stored = results.filter((result) => result.result === 'applied' && !result.rescue).length
    duplicates += Math.max(0, starts.length - Math.max(1, stored))
  }
  return duplicates
}

type LaneStart = Pick<Lease, 'id' | 'lane'>

/**
 * I9. `starts` of one loaded run: all jobs were there before the first start. As long as each lane has jobs,
 * each gets its share of the starts, and the lowest lane never waits longer than a round of every worker and
 * what each of them starts at once before and after it.
 */
export function checkLanes(
  starts: readonly LaneStart[],
  enqueued: readonly number[],
  weights: readonly number[],
  { workers, concurrency }: { readonly workers: number; readonly concurrency: number },
): Violation[] {
  const loaded = whileLoaded(starts, enqueued)
  const violations: Violation[] = []
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  weights.forEach((weight, lane) => {
    const share = loaded.filter((start) => start.lane === lane).length / loaded.length
    const due = weight / total
    // A quarter less than due: batches and several workers blur a share, a broken weight halves it.
    if (!(share >= due * 0.75)) {
      violations.push({
        invariant: 'I9',
        text: `lane ${lane} had ${percent(share)} of the starts, due ${percent(due)}`,
      })
    }
  })
  const lowest = weights.length - 1
  const bound = workers * (total / (weights[lowest] ?? 1) + 2 * concurrency)
  let gap = 0
  for (const { lane } of loaded) {
    gap = lane === lowest ? 0 : gap + 1
    if (gap > bound) {
      violations.push({
        invariant: 'I9',
        text: `the lowest lane waited for ${gap} starts, the bound is ${bound}`,
      })
      break
    }
  }
  return violations
}

/** The starts up to the moment when one lane has none left that never started. */
function whileLoaded(starts: readonly LaneStart[], enqueued: readonly number[]): readonly LaneStart[] {
  const left = [...enqueued]
  const seen = new Set<string>()
  for (const [i, { id, lane }] of starts.entries()) {
    if (seen.has(id)) continue
    seen.add(id)
    left[lane] = (left[lane] ?? 0) - 1
    if (left[lane] === 0) return starts.slice(0, i + 1)
  }
  return starts
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

function some(ids: readonly string[]): string {
  return ids.slice(0, 5).join(', ') + (ids.length > 5 ? ', …' : '')
}

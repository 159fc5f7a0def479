/**
 * What limits mean, said once more and as plainly as possible: every start is remembered with its time, every
 * run until its end, and each question is answered by counting. It judges what a store does and shares no code
 * with what makes stores do it.
 */
import assert from 'node:assert/strict'
import type { JobState, NewJob } from '../../core/job.js'
import type { Pick } from '../../core/lanes.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import type { GateRef, Limit, TrafficChange, TrafficSettings } from '../../core/traffic/settings.js'
import { longestWindow } from './traffic-parts.js'

export interface OracleJob {
  readonly job: NewJob
  state: JobState
  dueAt: number | undefined
  run: Run | undefined
}

interface Run {
  readonly worker: string
  readonly token: string
  readonly attempt: number
  readonly startedAt: number
}

/** `queue::main`, `group:main:a`: of, owner and name. */
type GateName = string

interface Claimed {
  readonly queue: string
  readonly lane: number
}

interface Window {
  readonly per: number
  /** Starts since this window has been in force. */
  readonly starts: number[]
}

export class TrafficOracle {
  now = 0
  readonly jobs = new Map<string, OracleJob>()
  readonly pausedQueues = new Set<string>()
  /** Opened by an operator. */
  readonly openedByHand = new Set<string>()
  /** As the store tells them. */
  readonly #phases = new Map<string, { readonly phase: BreakerPhase; readonly since: number }>()
  readonly #levels = new Map<GateName, { declared: TrafficSettings; chosen: TrafficSettings }>()
  readonly #windows = new Map<GateName, Window>()
  /** All that ever started, whatever the limits were at the time. */
  readonly #starts = new Map<GateName, number[]>()
  readonly #heldUntil = new Map<GateName, number>()
  /** A window longer than 100 ms is counted in slots of up to this length. */
  #slack = 0

  configure(ref: GateRef, change: TrafficChange, declared: boolean): void {
    const name = nameOf(ref)
    const levels = this.#levels.get(name) ?? { declared: {}, chosen: {} }
    const level = declared ? 'declared' : 'chosen'
    this.#levels.set(name, { ...levels, [level]: merged(levels[level], change) })
    for (const window of this.#windows.keys()) this.#refresh(window)
  }

  settings(name: GateName): TrafficSettings {
    const levels = this.#levels.get(name)
    return merged(levels?.declared ?? {}, levels?.chosen ?? {})
  }

  limitOf(name: GateName): Limit {
    const own = this.settings(name).limit
    if (own !== undefined) return own
    const [of, owner] = name.split(':') as [string, string]
    if (of === 'group') return this.settings(`queue::${owner}`).each ?? {}
    return of === 'key' ? (this.settings(`job::${owner}`).each ?? {}) : {}
  }

  gatesOf({ job }: OracleJob): GateName[] {
    const { limiter } = this.settings(`job::${job.name}`)
    const names = [`queue::${job.queue}`, `job::${job.name}`]
    if (job.traffic?.group !== undefined) names.push(`group:${job.queue}:${job.traffic.group}`)
    if (job.traffic?.key !== undefined) names.push(`key:${job.name}:${job.traffic.key}`)
    if (limiter !== undefined) names.push(`limiter::${limiter}`)
    return names
  }

  /** What the store says of a definition's breaker now. */
  seePhase(job: string, phase: BreakerPhase): void {
    const name = `job::${job}`
    if (this.#phases.get(name)?.phase !== phase) this.#phases.set(name, { phase, since: this.now })
  }

  hold({ job }: OracleJob, until: number): void {
    const key = job.traffic?.key
    const name = key === undefined ? `job::${job.name}` : `key:${job.name}:${key}`
    this.#heldUntil.set(name, Math.max(until, this.#heldUntil.get(name) ?? 0))
  }

  running(name: GateName): number {
    return this.#count(name, (state) => state === 'running')
  }

  pending(name: GateName): number {
    return this.#count(name, (state) => state === 'pending')
  }

  inState(state: JobState): OracleJob[] {
    return [...this.jobs.values()].filter((job) => job.state === state)
  }

  /** Groups and keys of jobs that wait or run. */
  namesInUse(): Set<GateName> {
    const live = [...this.inState('pending'), ...this.inState('running')]
    return new Set(live.flatMap((entry) => this.gatesOf(entry).filter((name) => /^(group|key):/.test(name))))
  }

  runsOf(worker: string): (OracleJob & { run: Run })[] {
    return this.inState('running').filter(
      (job): job is OracleJob & { run: Run } => job.run?.worker === worker,
    )
  }

  /** A job starts: it must have been allowed to, by each of its gates (I7, I8). */
  start(entry: OracleJob, run: Omit<Run, 'startedAt'>): void {
    const { id, queue } = entry.job
    assert.equal(entry.state, 'pending', `${id} was pending`)
    assert.ok(!this.pausedQueues.has(queue), `${id} is of a queue that hands out jobs`)
    entry.state = 'running'
    entry.run = { ...run, startedAt: this.now }
    for (const name of this.gatesOf(entry)) {
      this.#spend(name, 1)
      this.#judge(name, id)
    }
  }

  acquire(limiter: string, permits: number): void {
    const name = `limiter::${limiter}`
    this.#spend(name, permits)
    this.#judge(name, 'a permit')
  }

  /** No job waits although all of its gates have room: a claim that had room for it should have taken it. */
  checkNoneHeldBack(asked: readonly string[]): void {
    for (const entry of this.inState('pending')) {
      if (!asked.includes(entry.job.queue) || !this.#maySurelyStart(entry)) continue
      assert.fail(`${entry.job.id} may start, the claim had room, and it was not taken`)
    }
  }

  /**
   * Where a job waits that may start, its queue and lane have had their share (I9): of a strict claim all that
   * the picks before it left.
   */
  checkShares(picks: readonly Pick[], strict: boolean, claimed: readonly Claimed[]): void {
    const waiting = this.inState('pending').filter((entry) => this.#maySurelyStart(entry))
    for (const [i, { queue, lane, take }] of picks.entries()) {
      const there = waiting.find(({ job }) => job.queue === queue && job.lane === lane)
      if (there === undefined) continue
      const taken = countOf(claimed, { queue, lane })
      const later = picks.slice(i + 1).reduce((sum, pick) => sum + countOf(claimed, pick), 0)
      assert.ok(
        strict ? later === 0 : taken >= take,
        `${there.job.id} waits in lane ${lane} of ${queue}, which got ${taken} of its share of ${take}`,
      )
    }
  }

  #count(name: GateName, fits: (state: JobState) => boolean): number {
    let count = 0
    for (const entry of this.jobs.values())
      if (fits(entry.state) && this.gatesOf(entry).includes(name)) count++
    return count
  }

  #spend(name: GateName, count: number): void {
    this.#refresh(name)
    const all = this.#starts.get(name) ?? []
    this.#starts.set(name, all)
    for (let i = 0; i < count; i++) {
      all.push(this.now)
      this.#windows.get(name)?.starts.push(this.now)
    }
  }

  /** What happened under another window, or under none, says nothing about this one. */
  #refresh(name: GateName): void {
    const per = this.limitOf(name).rate?.per
    if (per === undefined) this.#windows.delete(name)
    else if (this.#windows.get(name)?.per !== per) this.#windows.set(name, { per, starts: [] })
    if (per !== undefined && per > 100) this.#slack = Math.max(this.#slack, per / 100)
  }

  #judge(name: GateName, who: string): void {
    const { rate, concurrency } = this.limitOf(name)
    const told = `${who} at ${this.now}, ${name}`
    assert.ok((this.#heldUntil.get(name) ?? 0) <= this.now, `${told}: is not held`)
    assert.ok(this.settings(name).paused !== true, `${told}: is not paused`)
    if (concurrency !== undefined && !name.startsWith('limiter'))
      assert.ok(this.running(name) <= concurrency, `${told}: ${this.running(name)} run, ${concurrency} may`)
    assert.ok(rate !== undefined || !name.startsWith('limiter'), `${told}: has a rate`)
    if (rate !== undefined) {
      const recent = this.#windows.get(name)?.starts.filter((at) => at > this.now - rate.per) ?? []
      assert.ok(
        recent.length <= rate.max,
        `${told}: ${recent.length} starts in ${rate.per} ms, ${rate.max} may`,
      )
    }
    this.#judgeBreaker(name, told)
  }

  #judgeBreaker(name: GateName, told: string): void {
    if (!name.startsWith('job::')) return
    assert.ok(!this.openedByHand.has(name.slice('job::'.length)), `${told}: its breaker is open by hand`)
    const known = this.#phases.get(name)
    const { breaker } = this.settings(name)
    if (known === undefined || known.phase === 'closed' || breaker === undefined) return
    const since = known.phase === 'open' ? this.now : known.since
    const probes = this.inState('running').filter(
      (entry) => this.gatesOf(entry).includes(name) && (entry.run?.startedAt ?? 0) >= since,
    )
    assert.ok(probes.length <= breaker.probes, `${told}: no more probes than ${breaker.probes}`)
    if (known.phase === 'open')
      assert.ok(
        known.since + breaker.cooldown <= this.now,
        `${told}: its breaker is open since ${known.since}`,
      )
  }

  /** Where the oracle cannot be sure it says no. */
  #maySurelyStart(entry: OracleJob): boolean {
    return !this.pausedQueues.has(entry.job.queue) && this.gatesOf(entry).every((name) => this.#hasRoom(name))
  }

  #hasRoom(name: GateName): boolean {
    const { rate, concurrency } = this.limitOf(name)
    const phase = this.#phases.get(name)?.phase ?? 'closed'
    if (phase !== 'closed' || this.settings(name).paused === true) return false
    if ((this.#heldUntil.get(name) ?? 0) > this.now) return false
    if (concurrency !== undefined && !name.startsWith('limiter') && this.running(name) >= concurrency)
      return false
    if (rate === undefined) return !name.startsWith('limiter')
    // How a burst is spread is not the oracle's business: it is whole when nothing has started for long.
    const spread = rate.burst < rate.max
    const per = spread ? longestWindow : rate.per
    const recent = (this.#starts.get(name) ?? []).filter((at) => at > this.now - per - this.#slack)
    return recent.length < (spread ? 1 : rate.max)
  }
}

/** Field by field, those of a limit too; null clears. */
function merged(under: TrafficSettings, over: TrafficChange): TrafficSettings {
  const all: Record<string, unknown> = { ...under }
  for (const [field, value] of Object.entries(over)) {
    if (value === null) delete all[field]
    else if (field === 'limit' || field === 'each')
      all[field] = { ...(all[field] as object), ...(value as object) }
    else all[field] = value
  }
  return all
}

function countOf(claimed: readonly Claimed[], { queue, lane }: Claimed): number {
  return claimed.filter((job) => job.queue === queue && job.lane === lane).length
}

export function nameOf(ref: GateRef): GateName {
  if (ref.of === 'group') return `group:${ref.queue}:${ref.name}`
  return ref.of === 'key' ? `key:${ref.job}:${ref.name}` : `${ref.of}::${ref.name}`
}

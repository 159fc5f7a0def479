/**
 * A circuit breaker of one definition, shared by all workers. Closed: jobs run, and their ends are counted over
 * a window. Open: none is started, so none burns an attempt. Half-open, once the cooldown is over: a few probes
 * run at a time; when enough of them end well it closes, and the first that fails opens it again.
 */

import { spanSetBack } from './set-back.js'

export interface BreakerPolicy {
  /** Share of failed runs, above 0 and up to 1, that opens it. */
  readonly failureRate: number
  /** Runs in the window before the share means anything. */
  readonly minimum: number
  /** Milliseconds over which runs are counted. */
  readonly window: number
  /** Milliseconds from opening to the first probe. */
  readonly cooldown: number
  /** Probes at a time, and good ones in a row before it closes. */
  readonly probes: number
}

export type BreakerPhase = 'closed' | 'open' | 'half-open'

export interface BreakerState {
  readonly phase: BreakerPhase
  /** Since when. */
  readonly at: number
  /** While open: when the first probe may start; infinite when an operator opened it. */
  readonly until: number
  /** Runs by slot of the window, oldest first. */
  readonly slots: readonly (readonly [slot: number, good: number, failed: number])[]
  /** While half-open: probes that ended well, and those that run. What started before is not among them. */
  readonly good: number
  readonly probing: number
}

export const closedBreaker: BreakerState = {
  phase: 'closed',
  at: 0,
  until: 0,
  slots: [],
  good: 0,
  probing: 0,
}

/** What ended, of runs that started at the same time; those that were given back are neither good nor failed. */
export interface Ends {
  readonly startedAt: number
  readonly count: number
  readonly good: number
  readonly failed: number
}

const slotsPerWindow = 10

/** How many jobs may start now. `running`: of the definition, probes and others. */
export function roomInBreaker(state: BreakerState, probes: number, running: number, now: number): number {
  if (state.phase === 'closed') return Number.POSITIVE_INFINITY
  if (state.phase === 'open' && now < state.until) return 0
  return Math.max(0, probes - probesNow(state, running))
}

/** Probes whose end was not told as one, because the clock was set back, run no more either. */
export function probesNow({ probing }: BreakerState, running: number): number {
  return Math.min(probing, running)
}

/** The clock was set back: it waits as long as it was meant to. */
export function breakerSetBack(state: BreakerState, now: number): BreakerState {
  const { from, until } = spanSetBack({ from: state.at, until: state.until }, now)
  return { ...state, at: from, until: state.phase === 'open' ? until : state.until }
}

/** Jobs start: the first of them after the cooldown are probes. */
export function afterProbes(state: BreakerState, now: number, count: number): BreakerState {
  if (state.phase === 'half-open') return { ...state, probing: state.probing + count }
  if (state.phase === 'closed' || now < state.until) return state
  return { ...closedBreaker, phase: 'half-open', at: now, probing: count }
}

export function afterEnds(state: BreakerState, policy: BreakerPolicy, now: number, ends: Ends): BreakerState {
  if (state.phase === 'closed') {
    return ends.good + ends.failed === 0 ? state : judge(counted(state, policy, now, ends), policy, now)
  }
  // What started before is no news.
  if (state.phase === 'open' || ends.startedAt < state.at) return state
  if (ends.failed > 0) return opened(now, now + policy.cooldown)
  const good = state.good + ends.good
  const probing = Math.max(0, state.probing - ends.count)
  return good >= policy.probes ? closed(now) : { ...state, good, probing }
}

/** Whether good runs alone leave it closed: it opens by them where they make failures count that were too few runs before. */
export function staysClosed(
  { phase, slots }: BreakerState,
  { failureRate, minimum }: BreakerPolicy,
): boolean {
  const failed = slots.reduce((sum, slot) => sum + slot[2], 0)
  return phase === 'closed' && failed < failureRate * minimum
}

/** Opened by hand: until it is closed by hand. */
export function openedByHand(now: number): BreakerState {
  return opened(now, Number.MAX_SAFE_INTEGER)
}

export function closedByHand(now: number): BreakerState {
  return closed(now)
}

/** Its policy is gone: what opened by itself closes, what an operator opened stays. */
export function withoutPolicy(state: BreakerState, now: number): BreakerState {
  return state.phase === 'closed' || state.until === Number.MAX_SAFE_INTEGER ? state : closed(now)
}

function closed(now: number): BreakerState {
  return { ...closedBreaker, at: now }
}

function opened(now: number, until: number): BreakerState {
  return { ...closedBreaker, phase: 'open', at: now, until }
}

function judge(state: BreakerState, policy: BreakerPolicy, now: number): BreakerState {
  let good = 0
  let failed = 0
  for (const slot of state.slots) {
    good += slot[1]
    failed += slot[2]
  }
  const enough = good + failed >= policy.minimum
  return enough && failed / (good + failed) >= policy.failureRate ? opened(now, now + policy.cooldown) : state
}

function counted(state: BreakerState, { window }: BreakerPolicy, now: number, ends: Ends): BreakerState {
  const length = Math.max(1, Math.ceil(window / slotsPerWindow))
  const slot = Math.floor(now / length) * length
  const kept = state.slots.filter(([start]) => start > now - window && start < slot)
  const same = state.slots.find(([start]) => start === slot)
  const entry = [slot, (same?.[1] ?? 0) + ends.good, (same?.[2] ?? 0) + ends.failed] as const
  return { ...state, slots: [...kept, entry] }
}

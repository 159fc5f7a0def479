/**
 * Traffic control: which of the waiting jobs may start. Jobs that nothing but their queue can hold up wait in the
 * plain line of their lane, and none of this concerns them. A definition with limits has a line of its own in
 * each lane, and jobs with groups have one, so that nobody waits behind a line that is closed. Inside a line
 * jobs stand in the order of their turns (turns.ts). A job whose group or key is closed is parked behind that
 * gate, and stands in line again when the gate has room.
 *
 * The rules are here, once; an engine gives them places to keep gates, lines and jobs.
 */

import type { Outcome } from '../lifecycle.js'
import type { AcquireRequest, AcquireResult } from '../store.js'
import { closedByHand, type Ends, openedByHand, withoutPolicy } from './breaker.js'
import type { Gate } from './gate.js'
import type { DuePlace, Line, TrafficPlaces, TrafficSubject, Waiting } from './places.js'
import { afterCrash, afterQuietRuns } from './quarantine.js'
import { afterRefusal } from './reserve.js'
import { clockSlack, noSpan, type Span } from './set-back.js'
import type { GateRef, TrafficChange } from './settings.js'
import { nextTag } from './turns.js'

/** Gates that one claim looks at because their time has come, and jobs that it takes out from behind each. */
const mostDue = 100
const mostUnparked = 100

/** Jobs that one claim moves out of the way in one line, before it leaves the rest to the next. */
export const mostMoved = 1_000

/** Milliseconds, for who asks for permits that only an operator can give. */
const askAgainLater = 1_000

export class TrafficControl<J extends Waiting<G>, L extends Line, G extends Gate> {
  readonly #places: TrafficPlaces<J, L, G>
  /** Gates that jobs of a queue and a definition share. */
  readonly #shared = new Map<string, Map<string, readonly G[]>>()
  /** How far the look at gates that are due later has come. */
  #lookedUpTo: DuePlace | undefined

  constructor(places: TrafficPlaces<J, L, G>) {
    this.#places = places
  }

  /** A job becomes pending: for the first time, or again. */
  enter(job: J, comesBack: boolean, now: number): void {
    const gates = this.#ownGates(job)
    for (const gate of gates) {
      gate.pending++
      this.#places.keepGate(gate)
    }
    this.#enterLine(job, comesBack, now)
  }

  /** A pending job leaves without having started. */
  leave(job: J, now: number): void {
    const { line, behind } = this.#places.remove(job)
    if (behind !== undefined) this.#noLongerParked(behind, line)
    for (const gate of this.#ownGates(job)) {
      if (behind === undefined) gate.shareIn(line).standing--
      this.#noLongerWaits(gate, now)
    }
    job.gates = undefined
  }

  /** How many jobs of the line may start, as far as its queue and definition go. */
  room(queue: string, name: string, now: number): number {
    let room = Number.POSITIVE_INFINITY
    for (const gate of this.#sharedGates(queue, name)) room = Math.min(room, gate.room(now))
    return room
  }

  /** When a line that has no room gets some by itself. */
  opensAt(queue: string, name: string, now: number): number {
    const closed = this.#sharedGates(queue, name).filter((gate) => gate.room(now) === 0)
    return Math.max(now, ...closed.map((gate) => gate.opensAt(now) ?? Number.POSITIVE_INFINITY))
  }

  /**
   * Starts up to `count` jobs at the head of a line. Those whose group or key is closed are parked, and those
   * whose definition got limits while they stood here go to its line, though not more than `mostMoved` of them.
   */
  take(line: L, count: number, now: number): { readonly jobs: J[]; readonly moved: boolean } {
    const taken: J[] = []
    let moved = false
    for (let looked = 0; taken.length < count && looked < mostMoved + taken.length; ) {
      const heads = this.#places.takeHeads(line, count - taken.length)
      for (const job of heads) {
        line.served = Math.max(line.served, job.rank)
        if (line.name === '' && this.jobGate(job.job.name) !== undefined) {
          this.#leaveLine(job, line)
          this.#enterLine(job, false, now)
          moved = true
        } else if (this.#startOrPark(job, line, now)) taken.push(job)
      }
      looked += heads.length
      if (heads.length === 0) break
    }
    this.#places.keepLine(line)
    if (taken.length > 0) {
      this.started(line.queue, line.name, taken.length, now)
    }
    return { jobs: taken, moved }
  }

  /** Jobs of a queue and definition start: from a line, or from the plain one of a queue that has limits. */
  started(queue: string, name: string, count: number, now: number): void {
    for (const gate of this.#sharedGates(queue, name)) {
      const { phase } = gate.breaker
      if (gate.ref.of === 'limiter') gate.spend(now, count)
      else gate.start(now, count)
      this.#places.keepGate(gate)
      if (gate.breaker.phase !== phase) this.#places.breakerChanged(name, gate)
    }
  }

  /** Jobs behind gates whose time has come stand in line again, in each line no more of them than may start. */
  unpark(now: number): void {
    for (const gate of this.#places.dueGates(now, mostDue)) {
      for (const [line, share] of gate.lines) {
        const most = Math.min(share.parked, gate.room(now) - share.standing, mostUnparked)
        for (let n = 0; n < most; n++) this.#unparkOne(gate, line, now)
      }
      this.#review(gate, now)
    }
  }

  #unparkOne(gate: G, from: number, now: number): void {
    const job = this.#places.unpark(gate, from)
    if (job === undefined) return
    this.#noLongerParked(gate, from)
    const closed = this.#ownGates(job).find((other) => other !== gate && other.room(now) === 0)
    // Its definition may have got limits, and so a line of its own, while it was parked.
    const line = this.#lineOf(job)
    if (closed === undefined) this.#stand(job, line, true)
    else this.#park(job, closed, line, now)
  }

  /** Forgets gates that only time kept; returns how many it looked at. */
  forgetIdle(now: number, limit: number): number {
    const idle = this.#places.idleGates(now, limit)
    for (const gate of idle) this.#review(gate, now)
    return idle.length
  }

  /** Gates of queues and definitions that count other jobs as running than there are; none, if all goes well. */
  miscounted(): G[] {
    return this.#sharedByAll().filter((gate) => gate.running !== this.#places.running(gate.ref))
  }

  #sharedByAll(): G[] {
    return [...this.#places.activeGates('queue'), ...this.#places.activeGates('job')]
  }

  /** Puts right what a process of an older version, which knows no gates, has left behind. */
  recount(): void {
    for (const gate of this.miscounted()) {
      gate.running = this.#places.running(gate.ref)
      this.#places.keepGate(gate)
    }
  }

  /** Gates that hold up jobs by times ahead of a clock that was set back; none, if all goes well. */
  aheadOfClock(now: number): GateRef[] {
    const shared = this.#sharedByAll()
    const limiters = shared.flatMap(({ settings: { limiter } }) =>
      limiter === undefined ? [] : (this.#places.findGate({ of: 'limiter', name: limiter }) ?? []),
    )
    const gates = new Set([...shared, ...limiters, ...this.#dueLater(now)])
    return [...gates].filter((gate) => gate.isAhead(now)).map(({ ref }) => ref)
  }

  setBack(refs: readonly GateRef[], now: number): void {
    for (const ref of refs) {
      const gate = this.#places.gate(ref)
      if (!gate.isAhead(now)) continue
      gate.setBack(now)
      this.#review(gate, now)
    }
  }

  /** Some of those whose parked jobs wait for a time, others with each call. */
  #dueLater(now: number): G[] {
    const from = this.#lookedUpTo ?? { dueAt: now + clockSlack, num: 0 }
    const gates = this.#places.dueLater(from, mostDue)
    this.#lookedUpTo = gates.length < mostDue ? undefined : placeOf(gates.at(-1) as G)
    return gates
  }

  /** Runs of jobs of one queue, definition, group and key are over, all with the same outcome. */
  ended(
    job: TrafficSubject,
    outcome: Outcome,
    startedAt: number,
    count: number,
    now: number,
    known?: readonly G[],
  ): void {
    if (outcome.hold > 0) this.#hold(job, { from: now, until: now + outcome.hold })
    const ends = endsOf(outcome, startedAt, count)
    const own = known ?? this.#gatesOf(job)
    const shared = this.#sharedGates(job.queue, job.name)
    if (outcome.idle) for (const gate of [...shared, ...own]) gate.giveBack(startedAt, count)
    for (const gate of shared) {
      if (gate.ref.of === 'limiter') {
        if (outcome.idle) this.#places.keepGate(gate)
        continue
      }
      const { phase } = gate.breaker
      gate.end(now, count, ends)
      this.#places.keepGate(gate)
      if (gate.breaker.phase !== phase) this.#places.breakerChanged(job.name, gate)
    }
    for (const gate of own) {
      gate.end(now, count, ends)
      this.#review(gate, now)
    }
    if (!outcome.crashed) this.#ranQuietly(shared, count)
    if (outcome.idle || own.some((gate) => gate.parked > 0) || shared.some((gate) => gate.opensByEnds))
      this.#places.ready(job)
  }

  /** Workers were lost with jobs of this definition. */
  crashed(name: string, now: number): void {
    const gate = this.#places.gate({ of: 'job', name })
    const before = gate.quarantine.since
    gate.quarantine = afterCrash(gate.quarantine, now)
    this.#places.keepGate(gate)
    if (before !== undefined || gate.quarantine.since === undefined) return
    this.activate(gate)
    this.#places.quarantined(name, true)
  }

  isSuspect(name: string): boolean {
    return this.jobGate(name)?.quarantine.since !== undefined
  }

  /** A definition's gate, if it is more than a memory of crashes. */
  jobGate(name: string): G | undefined {
    const gate = this.#places.findGate({ of: 'job', name })
    return gate?.active ? gate : undefined
  }

  /** Settings of a gate change: those that are governed by it may open. */
  configure(ref: GateRef, change: TrafficChange, declared: boolean, now: number): void {
    const gate = this.#places.gate(ref)
    gate.change(change, declared)
    this.forget()
    if (ref.of === 'group' || ref.of === 'key') gate.active = Object.keys(gate.settings).length > 0
    else this.activate(gate)
    if (gate.settings.breaker === undefined && gate.breaker.phase !== 'closed') this.#withoutPolicy(gate, now)
    this.#review(gate, now)
    this.#places.lookAgainUnder(ref, now)
  }

  /** An operator opens or closes the breaker of a definition. */
  setBreaker(name: string, to: 'open' | 'closed', now: number): void {
    const gate = this.#places.gate({ of: 'job', name })
    this.activate(gate)
    gate.breaker = to === 'open' ? openedByHand(now) : closedByHand(now)
    this.#places.keepGate(gate)
    this.#places.breakerChanged(name, gate)
  }

  /** An operator ends the hold that a handler told. */
  release(ref: GateRef, now: number): void {
    const gate = this.#places.findGate(ref)
    if (gate === undefined) return
    gate.hold = noSpan
    this.#review(gate, now)
  }

  /** Permits of a limiter, all or none. */
  acquire({ limiter, permits, waiter }: AcquireRequest, now: number): AcquireResult {
    const gate = this.#places.gate({ of: 'limiter', name: limiter })
    const rate = gate.settings.limit?.rate
    const most = rate?.burst
    if (gate.isAhead(now)) {
      gate.setBack(now)
      this.#places.keepGate(gate)
    }
    if (gate.room(now, waiter) >= permits) {
      gate.spend(now, permits, waiter)
      this.#places.keepGate(gate)
      return { granted: true, retryIn: 0, most }
    }
    // More than there ever will be, unless somebody changes the limit: then nothing is put aside for it.
    if (most === undefined || permits > most)
      return { granted: false, retryIn: rate?.per ?? askAgainLater, most }
    if (waiter !== undefined) this.#reserve(gate, waiter, permits, now)
    return { granted: false, retryIn: (gate.opensAt(now, permits, waiter) ?? now) - now, most }
  }

  #reserve(gate: G, waiter: string, permits: number, now: number): void {
    const before = gate.reserved
    gate.reserved = afterRefusal(before, waiter, permits, now)
    if (gate.reserved !== before) this.#places.keepGate(gate)
  }

  /** From now on it counts; what runs already counts too. */
  activate(gate: G): void {
    if (gate.active) return
    gate.active = true
    this.forget()
    const counts = gate.ref.of === 'queue' || gate.ref.of === 'job'
    if (counts) gate.running = this.#places.running(gate.ref)
    this.#places.keepGate(gate)
    if (counts) this.#places.concern(gate.ref)
  }

  #withoutPolicy(gate: G, now: number): void {
    const { phase } = gate.breaker
    gate.breaker = withoutPolicy(gate.breaker, now)
    if (gate.breaker.phase !== phase) this.#places.breakerChanged(gate.ref.name, gate)
  }

  /** Whether parked jobs of a gate are worth a look, and when. */
  #review(gate: G, now: number): void {
    gate.dueAt = this.#dueAt(gate, now)
    gate.idleAt = gate.whenIdle()
    if (gate.idleAt !== undefined && gate.idleAt <= now) this.#places.forgetGate(gate)
    else this.#places.keepGate(gate)
  }

  #dueAt(gate: G, now: number): number | undefined {
    if (gate.parked === 0) return undefined
    const free = gate.room(now)
    if (free === 0) return gate.opensAt(now)
    // Those that stand in a line already will use what there is; the next look is when one of them has.
    for (const { parked, standing } of gate.lines.values()) if (parked > 0 && standing < free) return now
    return undefined
  }

  #startOrPark(job: J, line: L, now: number): boolean {
    const gates = this.#ownGates(job)
    const closed = gates.find((gate) => gate.room(now) === 0)
    this.#leaveLine(job, line)
    if (closed !== undefined) {
      this.#park(job, closed, line, now)
      // The others have one less in line, so that one of those behind them may take its place.
      for (const gate of gates) if (gate !== closed) this.#review(gate, now)
      return false
    }
    for (const gate of gates) {
      gate.start(now, 1)
      this.#noLongerWaits(gate, now)
    }
    return true
  }

  #enterLine(job: J, comesBack: boolean, now: number): void {
    const line = this.#lineOf(job)
    // Where a gate has parked jobs of this line it would overtake them.
    const closed = this.#ownGates(job).find(
      (gate) => gate.shareIn(line.num).parked > 0 || gate.room(now) === 0,
    )
    if (closed === undefined) this.#stand(job, line, comesBack)
    else this.#park(job, closed, line, now)
  }

  #leaveLine(job: J, line: L): void {
    for (const gate of this.#ownGates(job)) gate.shareIn(line.num).standing--
  }

  #lineOf({ job: { queue, lane, name, traffic } }: J): L {
    const gated = traffic?.gated === true || this.jobGate(name) !== undefined
    return this.#places.line(queue, lane, gated ? name : '')
  }

  #stand(job: J, line: L, comesBack: boolean): void {
    const gates = this.#ownGates(job)
    const [first] = gates
    job.rank = nextTag(first?.shareIn(line.num) ?? line, line.served, first?.weight ?? 1, comesBack)
    if (first === undefined) this.#places.keepLine(line)
    for (const gate of gates) {
      gate.shareIn(line.num).standing++
      this.#places.keepGate(gate)
    }
    this.#places.stand(job, line)
  }

  #park(job: J, gate: G, line: L, now: number): void {
    job.rank = line.num
    gate.parked++
    gate.shareIn(line.num).parked++
    this.#places.park(job, gate)
    this.#review(gate, now)
  }

  #noLongerParked(gate: G, line: number): void {
    gate.parked--
    gate.shareIn(line).parked--
  }

  #noLongerWaits(gate: G, now: number): void {
    gate.pending--
    this.#review(gate, now)
  }

  #hold(job: TrafficSubject, hold: Span): void {
    const key = job.traffic?.key
    const gate = this.#places.gate(
      key === undefined ? { of: 'job', name: job.name } : { of: 'key', job: job.name, name: key },
    )
    if (hold.until > gate.hold.until) gate.hold = hold
    this.#places.keepGate(gate)
    if (key === undefined) this.activate(gate)
  }

  #ranQuietly(shared: readonly G[], count: number): void {
    const gate = shared.find(({ quarantine }) => quarantine.since !== undefined)
    if (gate === undefined) return
    gate.quarantine = afterQuietRuns(gate.quarantine, count)
    this.#places.keepGate(gate)
    if (gate.quarantine.since === undefined) this.#places.quarantined(gate.ref.name, false)
  }

  /** What is remembered of gates may be old. */
  forget(): void {
    this.#shared.clear()
  }

  /** The gates that the jobs of a line share. */
  #sharedGates(queue: string, name: string): readonly G[] {
    this.#places.refresh()
    let ofQueue = this.#shared.get(queue)
    if (ofQueue === undefined) {
      ofQueue = new Map()
      this.#shared.set(queue, ofQueue)
    }
    let gates = ofQueue.get(name)
    if (gates === undefined) {
      gates = this.#findShared(queue, name)
      ofQueue.set(name, gates)
    }
    return gates
  }

  #findShared(queue: string, name: string): readonly G[] {
    const ofQueue = this.#places.findGate({ of: 'queue', name: queue })
    const ofJob = this.jobGate(name)
    const limiter = ofJob?.settings.limiter
    const ofLimiter = limiter === undefined ? undefined : this.#places.gate({ of: 'limiter', name: limiter })
    return [ofQueue?.active ? ofQueue : undefined, ofJob, ofLimiter].filter((gate) => gate !== undefined)
  }

  /** The gates of one job's own: its group's, then its key's. The first one's turn it takes. */
  #ownGates(job: J): readonly G[] {
    job.gates ??= this.#gatesOf(job.job)
    return job.gates
  }

  #gatesOf({ name, queue, traffic }: TrafficSubject): readonly G[] {
    if (traffic === undefined) return none
    const { group, key } = traffic
    const gates: G[] = []
    if (group !== undefined) gates.push(this.#places.gate({ of: 'group', queue, name: group }))
    if (key !== undefined) gates.push(this.#places.gate({ of: 'key', job: name, name: key }))
    return gates
  }
}

const none: readonly never[] = []

function placeOf({ dueAt = 0, num = 0 }: Gate): DuePlace {
  return { dueAt, num }
}

function endsOf(outcome: Outcome, startedAt: number, count: number): Ends {
  const failed = outcome.failure !== undefined && !outcome.excused
  return {
    startedAt,
    count,
    good: outcome.to === 'completed' && !outcome.excused ? count : 0,
    failed: failed ? count : 0,
  }
}

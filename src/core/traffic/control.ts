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
import { GateFinder } from './find-gates.js'
import type { Gate } from './gate.js'
import type { Line, TrafficPlaces, TrafficSubject, Waiting } from './places.js'
import { afterCrash, afterQuietRuns } from './quarantine.js'
import { afterRefusal } from './reserve.js'
import { review } from './review.js'
import { noSpan, type Span } from './set-back.js'
import type { GateRef, TrafficChange } from './settings.js'
import { nextTag } from './turns.js'
import { Upkeep } from './upkeep.js'

/** Gates that one claim looks at because their time has come, and jobs that it takes out from behind each. */
const mostDue = 100
const mostUnparked = 100

/** Jobs that one claim moves out of the way in one line, before it leaves the rest to the next. */
export const mostMoved = 1_000

/** Milliseconds, for who asks for permits that only an operator can give. */
const askAgainLater = 1_000

/** Starts and ends that are counted later. */
export interface Loan {
  readonly room: number
  /** Each end makes room for another one. */
  readonly refills: boolean
  /** It counts when jobs started and ended. */
  readonly timed: boolean
}

export class TrafficControl<J extends Waiting<G>, L extends Line, G extends Gate> {
  readonly #places: TrafficPlaces<J, L, G>
  readonly #finder: GateFinder<J, G>
  readonly upkeep: Upkeep<G>

  constructor(places: TrafficPlaces<J, L, G>) {
    this.#places = places
    this.#finder = new GateFinder(places)
    this.upkeep = new Upkeep(places)
  }

  /** A job becomes pending: for the first time, or again. */
  enter(job: J, comesBack: boolean, now: number): void {
    const gates = this.#finder.own(job)
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
    for (const gate of this.#finder.own(job)) {
      if (behind === undefined) gate.shareIn(line).standing--
      this.#noLongerWaits(gate, now)
    }
    job.gates = undefined
  }

  /** How many jobs of the line may start, as far as its queue and definition go. */
  room(queue: string, name: string, now: number): number {
    let room = Number.POSITIVE_INFINITY
    for (const gate of this.#finder.shared(queue, name)) room = Math.min(room, gate.room(now))
    return room
  }

  /**
   * Of a line: how many jobs may start before anybody has to be asked again, as long as it is told of them before anything else
   * happens to its gates. Undefined where each start has to be asked for.
   */
  loan(queue: string, name: string, now: number): Loan | undefined {
    const gates = this.#finder.shared(queue, name)
    if (!gates.every((gate) => gate.isCalm(now))) return undefined
    return {
      room: this.room(queue, name, now),
      refills: !gates.some((gate) => gate.opensByTime),
      timed: gates.some((gate) => gate.opensByTime || gate.judgesEnds),
    }
  }

  /** When a line that has no room gets some by itself. */
  opensAt(queue: string, name: string, now: number): number {
    const closed = this.#finder.shared(queue, name).filter((gate) => gate.room(now) === 0)
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
          this.#moveLine(job, line, now)
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
    for (const gate of this.#finder.shared(queue, name)) {
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
      review(this.#places, gate, now)
    }
  }

  #unparkOne(gate: G, from: number, now: number): void {
    const job = this.#places.unpark(gate, from)
    if (job === undefined) return
    this.#noLongerParked(gate, from)
    const closed = this.#finder.own(job).find((other) => other !== gate && other.room(now) === 0)
    // Its definition may have got limits, and so a line of its own, while it was parked.
    const line = this.#lineOf(job)
    if (closed === undefined) this.#stand(job, line, true)
    else this.#park(job, closed, line, now)
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
    const own = known ?? this.#finder.of(job)
    const shared = this.#finder.shared(job.queue, job.name)
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
      review(this.#places, gate, now)
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

  /** What is remembered of gates may be old. */
  forget(): void {
    this.#finder.forget()
  }

  isSuspect(name: string): boolean {
    return this.jobGate(name)?.quarantine.since !== undefined
  }

  /** A definition's gate, if it is more than a memory of crashes. */
  jobGate(name: string): G | undefined {
    return this.#finder.ofJob(name)
  }

  /** Settings of a gate change: those that are governed by it may open. */
  configure(ref: GateRef, change: TrafficChange, declared: boolean, now: number): void {
    const gate = this.#places.gate(ref)
    gate.change(change, declared)
    this.#finder.forget()
    if (ref.of === 'group' || ref.of === 'key') gate.active = Object.keys(gate.settings).length > 0
    else this.activate(gate)
    if (gate.settings.breaker === undefined && gate.breaker.phase !== 'closed') this.#withoutPolicy(gate, now)
    review(this.#places, gate, now)
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
    review(this.#places, gate, now)
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
    this.#finder.forget()
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

  #startOrPark(job: J, line: L, now: number): boolean {
    const gates = this.#finder.own(job)
    const closed = gates.find((gate) => gate.room(now) === 0)
    this.#leaveLine(job, line)
    if (closed !== undefined) {
      this.#park(job, closed, line, now)
      // The others have one less in line, so that one of those behind them may take its place.
      for (const gate of gates) if (gate !== closed) review(this.#places, gate, now)
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
    const closed = this.#finder
      .own(job)
      .find((gate) => gate.shareIn(line.num).parked > 0 || gate.room(now) === 0)
    if (closed === undefined) this.#stand(job, line, comesBack)
    else this.#park(job, closed, line, now)
  }

  /** Its gates have one less in the line that it leaves, so that one of those behind them may take its place. */
  #moveLine(job: J, from: L, now: number): void {
    this.#leaveLine(job, from)
    this.#enterLine(job, false, now)
    for (const gate of this.#finder.own(job)) review(this.#places, gate, now)
  }

  #leaveLine(job: J, line: L): void {
    for (const gate of this.#finder.own(job)) gate.shareIn(line.num).standing--
  }

  #lineOf({ job: { queue, lane, name, traffic } }: J): L {
    const gated = traffic?.gated === true || this.jobGate(name) !== undefined
    return this.#places.line(queue, lane, gated ? name : '')
  }

  #stand(job: J, line: L, comesBack: boolean): void {
    const gates = this.#finder.own(job)
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
    review(this.#places, gate, now)
  }

  #noLongerParked(gate: G, line: number): void {
    gate.parked--
    gate.shareIn(line).parked--
  }

  #noLongerWaits(gate: G, now: number): void {
    gate.pending--
    review(this.#places, gate, now)
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

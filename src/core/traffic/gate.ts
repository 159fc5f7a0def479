/**
 * A gate decides whether one more job of a queue, a definition, a group or a key, or one more permit of a
 * limiter, may start now. Engines keep gates and ask them inside the step that claims, so the answer holds for
 * all workers of all processes.
 */

import type { GateRecord } from '../store.js'
import {
  afterEnds,
  afterProbes,
  type BreakerState,
  breakerSetBack,
  closedBreaker,
  type Ends,
  probesNow,
  roomInBreaker,
  staysClosed,
} from './breaker.js'
import { noQuarantine, type Quarantine } from './quarantine.js'
import {
  afterStarts,
  noStarts,
  type Rate,
  rateIsAhead,
  rateOpensAt,
  rateSetBack,
  roomInRate,
  type Starts,
  withoutStarts,
} from './rate.js'
import { afterGrant, type Reservation, reservedFor } from './reserve.js'
import { noSpan, type Span, spanIsAhead, spanSetBack } from './set-back.js'
import {
  changed,
  effective,
  type GateRef,
  type Limit,
  type TrafficChange,
  type TrafficSettings,
} from './settings.js'
import type { TurnOwner } from './turns.js'

/** What it goes by: its own settings, and what its queue or definition says of each of its kind. */
interface Rules {
  readonly limit: Limit
  readonly paused: boolean
  readonly breaker: TrafficSettings['breaker']
  readonly weight: number
}

/** Milliseconds. */
const aMoment = 20

const noLimit: Limit = {}
const noSettings: TrafficSettings = {}

/** What a group or key has in one line. Lines open and close apart, so what waits for each is known apart. */
export interface LineShare extends TurnOwner {
  /** Jobs that stand in the line. */
  standing: number
  /** Jobs that belong there and are parked behind this gate. */
  parked: number
}

export class Gate {
  readonly ref: GateRef
  /** Orders gates that are alike; undefined until the engine gives it one. */
  num: number | undefined = undefined
  /** Of a group its queue's, of a key its definition's. */
  readonly parent: Gate | undefined
  /** Jobs of a group or key that wait, the parked ones among them. */
  pending = 0
  /** Jobs that wait behind this gate and in no line. */
  parked = 0
  /** Jobs that run, by their leases: one whose worker was lost counts until it is rescued. */
  running = 0
  /** By the numbers of the lines. */
  lines = new Map<number, LineShare>()
  /** It has settings of its own, or was closed from outside: it counts, and is kept, from then on. */
  active = false
  /** When parked jobs are worth a look. */
  dueAt: number | undefined = undefined
  /** When it may be forgotten, if nothing happens until then. */
  idleAt: number | undefined = undefined
  starts: Starts = noStarts
  /** Told by a handler: nothing starts before its end. */
  hold: Span = noSpan
  breaker: BreakerState = closedBreaker
  quarantine: Quarantine = noQuarantine
  /** Permits of a limiter that are put aside. */
  reserved: Reservation | undefined = undefined
  /** Marks of a queue's depth that were reached; see depth.ts. */
  full = 0
  #declared: TrafficSettings
  #chosen: TrafficSettings
  #settings: TrafficSettings
  #rules: Rules | undefined
  #rulesEach: TrafficSettings['each']

  constructor(
    ref: GateRef,
    parent: Gate | undefined,
    declared: TrafficSettings = noSettings,
    chosen: TrafficSettings = noSettings,
  ) {
    this.ref = ref
    this.parent = parent
    this.#declared = declared
    this.#chosen = chosen
    this.#settings = effective(declared, chosen)
  }

  /** From the code. */
  get declared(): TrafficSettings {
    return this.#declared
  }

  /** Chosen at run time. */
  get chosen(): TrafficSettings {
    return this.#chosen
  }

  get settings(): TrafficSettings {
    return this.#settings
  }

  change(change: TrafficChange, declared: boolean): void {
    if (declared) this.#declared = changed(this.#declared, change)
    else this.#chosen = changed(this.#chosen, change)
    this.#settings = effective(this.#declared, this.#chosen)
    this.#rules = undefined
  }

  shareIn(line: number): LineShare {
    let share = this.lines.get(line)
    if (share === undefined) {
      share = { tag: 0, backTag: 0, standing: 0, parked: 0 }
      this.lines.set(line, share)
    }
    return share
  }

  get weight(): number {
    return this.#rule.weight
  }

  /** How many more may start now, or permits be given to one who waits. */
  room(now: number, waiter?: string): number {
    const { limit, breaker, paused } = this.#rule
    if (paused || this.hold.until > now || this.#lacksRate) return 0
    let free = Number.POSITIVE_INFINITY
    if (limit.concurrency !== undefined) free = Math.max(0, limit.concurrency - this.running)
    if (limit.rate !== undefined) free = Math.min(free, this.#unreserved(limit.rate, now, waiter))
    if (this.breaker.phase !== 'closed')
      free = Math.min(free, roomInBreaker(this.breaker, breaker?.probes ?? 0, this.running, now))
    return free
  }

  /** When it opens by itself; undefined when only the end of a run or an operator opens it. */
  opensAt(now: number, need = 1, waiter?: string): number | undefined {
    const { limit, breaker, paused } = this.#rule
    if (paused || this.#lacksRate || (limit.concurrency !== undefined && this.running >= limit.concurrency))
      return undefined
    let at = Math.max(now, this.hold.until)
    if (limit.rate !== undefined) at = Math.max(at, this.#rateOpensAt(limit.rate, now, need, waiter))
    if (this.breaker.phase !== 'closed') {
      if (
        probesNow(this.breaker, this.running) >= (breaker?.probes ?? 0) ||
        this.breaker.until === Number.MAX_SAFE_INTEGER
      )
        return undefined
      at = Math.max(at, this.breaker.until)
    }
    return at
  }

  start(now: number, count: number): void {
    this.running += count
    this.spend(now, count)
    if (this.breaker.phase !== 'closed') this.breaker = afterProbes(this.breaker, now, count)
  }

  /** Permits of a limiter come back by time alone. */
  spend(now: number, count: number, waiter?: string): void {
    const { rate } = this.#rule.limit
    if (rate !== undefined) this.starts = afterStarts(this.starts, rate, now, count)
    this.reserved = afterGrant(this.reserved, waiter, now)
  }

  /** What was spent at that time was not used. */
  giveBack(at: number, count: number): void {
    const { rate } = this.#rule.limit
    if (rate !== undefined) this.starts = withoutStarts(this.starts, rate, at, count)
  }

  /** Runs ended; those that were given back are neither good nor failed. */
  end(now: number, count: number, ends: Ends): void {
    const { breaker } = this.#rule
    this.running -= count
    if (breaker !== undefined) this.breaker = afterEnds(this.breaker, breaker, now, ends)
  }

  /** The clock was set back since it was closed. */
  isAhead(now: number): boolean {
    const { rate } = this.#rule.limit
    const { at } = this.breaker
    return (
      (rate !== undefined && rateIsAhead(this.starts, rate, now)) ||
      spanIsAhead(this.hold, now) ||
      spanIsAhead({ from: at, until: at }, now)
    )
  }

  setBack(now: number): void {
    const { rate } = this.#rule.limit
    if (rate !== undefined) this.starts = rateSetBack(this.starts, rate, now)
    if (spanIsAhead(this.hold, now)) this.hold = spanSetBack(this.hold, now)
    if (this.breaker.at > now) this.breaker = breakerSetBack(this.breaker, now)
  }

  /** Whether nothing counts but how many jobs start, when, and how many end well. */
  isCalm(now: number): boolean {
    const { ref, breaker, quarantine } = this
    if ((ref.of !== 'queue' && ref.of !== 'job') || quarantine.since !== undefined) return false
    const policy = this.#rule.breaker
    const isQuiet = policy === undefined ? breaker.phase === 'closed' : staysClosed(breaker, policy)
    return isQuiet && this.room(now) > 0
  }

  /** It has room again some time after runs have started. */
  get opensByTime(): boolean {
    return this.#rule.limit.rate !== undefined
  }

  /** How runs ended over a window may close it. */
  get judgesEnds(): boolean {
    return this.#rule.breaker !== undefined
  }

  /** The end of a run may open it. */
  get opensByEnds(): boolean {
    return this.#rule.limit.concurrency !== undefined || this.breaker.phase !== 'closed'
  }

  /** When a group or key is forgotten without loss, if nothing happens until then; undefined while it is in use. */
  whenIdle(): number | undefined {
    const isOne = this.ref.of === 'group' || this.ref.of === 'key'
    if (!isOne || this.pending + this.running > 0 || this.active) return undefined
    const { rate } = this.#rule.limit
    const last = this.starts.slots.at(-1)
    return Math.max(this.hold.until, rate === undefined || last === undefined ? 0 : last[0] + rate.per)
  }

  #unreserved(rate: Rate, now: number, waiter: string | undefined): number {
    return Math.max(0, roomInRate(this.starts, rate, now) - reservedFor(this.reserved, waiter, now))
  }

  #rateOpensAt(rate: Rate, now: number, need: number, waiter: string | undefined): number {
    const opensAt = rateOpensAt(this.starts, rate, now, need)
    const aside = reservedFor(this.reserved, waiter, now)
    if (aside === 0) return opensAt
    // When there is enough for both, and not at once: the other one may be about to take its share.
    return Math.max(opensAt, rateOpensAt(this.starts, rate, now, need + aside), now + aMoment)
  }

  /** A limiter that nobody has given a rate gives no permits: a misspelt name must not lift a limit. */
  get #lacksRate(): boolean {
    return this.ref.of === 'limiter' && this.#rule.limit.rate === undefined
  }

  get #rule(): Rules {
    const each = this.parent?.settings.each
    if (this.#rules === undefined || this.#rulesEach !== each) {
      const { limit, paused, breaker, weight } = this.#settings
      this.#rulesEach = each
      this.#rules = {
        limit: limit ?? each ?? noLimit,
        paused: paused ?? false,
        breaker,
        weight: weight ?? each?.weight ?? 1,
      }
    }
    return this.#rules
  }
}

/** A queue's or definition's gate that only remembers crashes, or what its groups go by, holds nobody up. */
export function isListed(gate: Gate): boolean {
  return gate.active || (gate.ref.of !== 'queue' && gate.ref.of !== 'job')
}

/** What a reader sees of it. */
export function gateRecord(gate: Gate, now: number): GateRecord {
  const room = gate.room(now)
  return {
    ref: gate.ref,
    declared: gate.declared,
    chosen: gate.chosen,
    pending: gate.pending,
    running: gate.running,
    room: room === Number.POSITIVE_INFINITY ? undefined : room,
    opensAt: room === 0 ? gate.opensAt(now) : undefined,
    breaker: gate.breaker.phase,
    quarantinedAt: gate.quarantine.since,
  }
}

import type { Gate } from './gate.js'
import type { DuePlace, GateStore } from './places.js'
import { review } from './review.js'
import { clockSlack } from './set-back.js'
import type { GateRef } from './settings.js'

/** Gates that one look at those that are due later goes through. */
const mostLater = 100

/** What a sweep does for gates: forgets those that are idle, and puts right what should not have gone wrong. */
export class Upkeep<G extends Gate> {
  readonly #places: GateStore<G>
  /** How far the look at gates that are due later has come. */
  #lookedUpTo: DuePlace | undefined

  constructor(places: GateStore<G>) {
    this.#places = places
  }

  /** Forgets gates that only time kept; returns how many it looked at. */
  forgetIdle(now: number, limit: number): number {
    const idle = this.#places.idleGates(now, limit)
    for (const gate of idle) review(this.#places, gate, now)
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
      review(this.#places, gate, now)
    }
  }

  /** Some of those whose parked jobs wait for a time, others with each call. */
  #dueLater(now: number): G[] {
    const from = this.#lookedUpTo ?? { dueAt: now + clockSlack, num: 0 }
    const gates = this.#places.dueLater(from, mostLater)
    this.#lookedUpTo = gates.length < mostLater ? undefined : placeOf(gates.at(-1) as G)
    return gates
  }
}

function placeOf({ dueAt = 0, num = 0 }: Gate): DuePlace {
  return { dueAt, num }
}

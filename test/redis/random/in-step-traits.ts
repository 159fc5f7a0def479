/** What the jobs of a run are like, and how they are held up. */
import type { GateRef, TrafficChange } from '../../../src/core/traffic/settings.js'
import { jobGate, queueGate, rate } from '../../../src/testing/conformance/traffic-helpers.js'
import type { Random } from '../../chaos/random.js'

export interface Traits {
  readonly groups: 'none' | 'some' | 'all'
  readonly isGated: boolean
  readonly hasKeys: boolean
  readonly hasFamilies: boolean
  readonly declared: readonly [GateRef, TrafficChange] | undefined
  /** Mostly inserts, claims and completions, so that there are long stretches without the desk. */
  readonly isCalm: boolean
}

const declarations: readonly Traits['declared'][] = [
  undefined,
  [queueGate(), { limit: { concurrency: 5 } }],
  [jobGate(), { limit: { concurrency: 5 } }],
  [queueGate(), { limit: { rate: rate(6, 50) } }],
  [jobGate(), { limit: { rate: rate(6, 50), concurrency: 8 } }],
  [jobGate(), { breaker: { failureRate: 0.6, minimum: 5, window: 200, cooldown: 30, probes: 2 } }],
  [queueGate(), { limit: { concurrency: 30 } }],
  [jobGate(), { limit: { concurrency: 30 } }],
]

export function traitsOf(random: Random): Traits {
  return {
    groups: random.pick(['none', 'some', 'all']),
    isGated: random.chance(0.5),
    hasKeys: random.chance(0.12),
    hasFamilies: random.chance(0.5),
    declared: random.pick(declarations),
    isCalm: random.chance(0.67),
  }
}

/** What an operator chooses while jobs run. */
export function choiceOf(random: Random): readonly [GateRef, TrafficChange] {
  const concurrency = random.integer(3, 10)
  const main = queueGate()
  return random.pick<readonly [GateRef, TrafficChange]>([
    [main, { limit: random.pick([null, { concurrency }]) }],
    [jobGate(), { limit: random.pick([null, { concurrency }]) }],
    [main, { each: random.pick([null, { concurrency: 2 }]) }],
    [{ of: 'group', queue: 'main', name: 'a' }, { limit: random.pick([null, { concurrency: 2 }]) }],
    [{ of: 'group', queue: 'main', name: 'b' }, { weight: random.pick([null, 3]) }],
  ])
}

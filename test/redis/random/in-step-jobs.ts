/** Random jobs, and random ends of them. */
import type { NewJob } from '../../../src/core/job.js'
import { type Outcome, released, snoozed } from '../../../src/core/lifecycle.js'
import type { JobTraffic } from '../../../src/core/traffic/settings.js'
import { childOf, parent } from '../../../src/testing/conformance/family-jobs.js'
import { complete, die, newJob, retryIn, stop } from '../../../src/testing/conformance/helpers.js'
import type { Random } from '../../chaos/random.js'
import type { Traits } from './in-step-traits.js'
import { pickWeighted } from './seeds.js'

export const forever = 1_000_000_000
export const keepAll = { completed: forever, dead: forever }
const keepNothing = { completed: 0, dead: 0 }

export class RandomJobs {
  readonly ids: string[] = []
  readonly parents: string[] = []
  /** Those that have limits or groups. */
  readonly governed = new Set<string>()
  readonly #random: Random
  readonly #traits: Traits

  constructor(random: Random, traits: Traits) {
    this.#random = random
    this.#traits = traits
  }

  some(): NewJob[] {
    const random = this.#random
    const { hasFamilies } = this.#traits
    const count = random.integer(1, 5)
    if (hasFamilies && random.chance(0.2)) return this.#family(count)
    if (hasFamilies && random.chance(0.5) && this.parents.length > 0) return this.#laterChildren(count)
    return Array.from({ length: count }, () => this.#single())
  }

  #family(count: number): NewJob[] {
    const random = this.#random
    const waits = random.chance(0.33) ? 'open' : 'sealed'
    const top = parent({ id: this.#newId(), name: 'top', queue: 'fam' }, { waits, patience: 5_000 })
    this.parents.push(top.id)
    const children = Array.from({ length: count }, () => {
      const fields = { id: this.#newId(), name: 'kid', queue: 'fam', input: `"${random.integer(0, 8)}"` }
      return childOf([top], fields, { onFailure: random.pick(['fail', 'ignore', 'continue']) })
    })
    return [top, ...children]
  }

  /** Alike, as those are that a handler adds. */
  #laterChildren(count: number): NewJob[] {
    const random = this.#random
    const top = random.pick(this.parents.slice(-4))
    const onFailure = random.pick(['fail', 'ignore'] as const)
    const first = childOf([top], { id: this.#newId(), name: 'kid', queue: 'fam' }, { onFailure })
    const others = Array.from({ length: count - 1 }, () => ({ ...first, id: this.#newId() }))
    return [first, ...others]
  }

  #single(): NewJob {
    const random = this.#random
    const { isCalm } = this.#traits
    const id = this.#newId()
    const traffic = this.#traffic()
    if (traffic?.group !== undefined || this.#traits.declared?.[1].limit !== undefined) this.governed.add(id)
    return newJob({
      id,
      // With the character that stands between bodies on the way.
      input: random.chance(0.17) ? '"a\u001eb"' : `"${random.integer(0, 98)}"`,
      traffic,
      delay: random.chance(isCalm ? 0.02 : 0.07) ? 10 : 0,
      lane: !isCalm && random.chance(0.04) ? 1 : 2,
      maxCrashes: random.pick([1, 5]),
      metadata: random.chance(0.2) ? '{"m":1}' : undefined,
    })
  }

  #traffic(): JobTraffic | undefined {
    const random = this.#random
    const { groups, isGated, hasKeys } = this.#traits
    const hasGroup = groups === 'all' || (groups === 'some' && random.chance(0.67))
    const group = hasGroup ? random.pick(['a', 'b', 'c', 'd:;x']) : undefined
    const key = hasKeys && random.chance(0.17) ? random.pick(['k', 'l']) : undefined
    const isPlain = !isGated && group === undefined && key === undefined
    return isPlain ? undefined : { gated: isGated, group, key }
  }

  /** One that exists, now and then; of the form that we make, or another. */
  #newId(): string {
    const random = this.#random
    const count = this.ids.length
    if (count > 0 && random.chance(this.#traits.isCalm ? 0.017 : 0.08)) return random.pick(this.ids)
    const ofOurs = `0199aaaa-${1000 + (count % 7)}-7000-8000-${String(count).padStart(12, '0')}`
    const id = random.chance(0.5) ? ofOurs : `j_.:@#=+/-${count}`
    this.ids.push(id)
    return id
  }
}

export function completion(random: Random): Outcome {
  const result = random.chance(0.5) ? `"r${random.integer(0, 8)}"` : undefined
  return complete(result, random.chance(0.5) ? keepNothing : keepAll)
}

export function anyOutcome(random: Random): Outcome {
  const keep = random.chance(0.33) ? keepNothing : keepAll
  const make = pickWeighted<() => Outcome>(random, [
    [13, () => completion(random)],
    [1, () => die(undefined, keep)],
    [1, () => retryIn(random.pick([0, 5, 30]))],
    [1, () => snoozed(random.pick([0, 10]))],
    [0.3, () => stop(undefined, keep)],
    [0.7, () => released()],
  ])
  return make()
}

/** For the story of a run. */
export function shownJob({ id, name, lane, delay, traffic, family }: NewJob): string {
  const { group, key } = traffic ?? {}
  const parents = family?.parents.map((parent) => parent.id)
  return `${id} ${JSON.stringify({ name, lane, delay, group, key, parents })}`
}

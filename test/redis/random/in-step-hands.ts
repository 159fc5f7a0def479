/** What workers hold, under a token of each side. */
import type { ClaimedJob } from '../../../src/core/job.js'
import type { Outcome } from '../../../src/core/lifecycle.js'
import type { Settlement } from '../../../src/core/store.js'
import type { Random } from '../../chaos/random.js'
import { anyOutcome, completion } from './in-step-jobs.js'
import type { Traits } from './in-step-traits.js'
import type { Twice } from './pair.js'

export interface Held {
  readonly id: string
  readonly worker: string
  readonly tokens: Twice<string>
}

export interface Ending extends Held {
  readonly outcome: Outcome
}

export const workers = ['v', 'w']

export class Hands {
  readonly #random: Random
  readonly #traits: Traits
  #held: readonly Held[] = []
  /** The latest that were let go. */
  #ended: readonly Held[] = []

  constructor(random: Random, traits: Traits) {
    this.#random = random
    this.#traits = traits
  }

  take(worker: string, [expected, answer]: Twice<readonly ClaimedJob[]>): void {
    const taken = expected.map(({ id, token }, i): Held => {
      return { id, worker, tokens: [token, answer[i]?.token as string] }
    })
    this.#held = [...this.#held, ...taken]
  }

  letGo(ids: readonly string[]): void {
    const ended = this.#held.filter(({ id }) => ids.includes(id))
    this.#held = this.#held.filter(({ id }) => !ids.includes(id))
    this.#ended = [...ended, ...this.#ended].slice(0, 10)
  }

  /** Some of what the worker holds. */
  endingOf(worker: string): readonly Ending[] {
    const random = this.#random
    const allComplete = random.chance(this.#traits.isCalm ? 0.88 : 0.67)
    return this.#held
      .filter((one) => one.worker === worker && random.chance(0.5))
      .map((one) => ({ ...one, outcome: allComplete ? completion(random) : anyOutcome(random) }))
  }

  /** What somebody else holds, or what has ended under that token. */
  stale(): Held | undefined {
    const [held] = this.#held
    if (held === undefined || this.#random.chance(0.5)) return this.#random.pick(this.#ended)
    return { ...held, worker: workers.find((name) => name !== held.worker) as string }
  }
}

export function settlementOf({ id, tokens, outcome }: Ending, which: 0 | 1): Settlement {
  return { id, token: tokens[which], outcome, inserts: undefined }
}

/** One random run on both sides: its steps, and what is looked at. */
import { crashed } from '../../../src/core/lifecycle.js'
import type { Command, OrphanedJob, Settlement, SweepReport } from '../../../src/core/store.js'
import {
  claimRequest,
  complete,
  idsOf,
  lease,
  lostWorker,
  operateAll,
  sorted,
  sweep,
} from '../../../src/testing/conformance/helpers.js'
import type { Random } from '../../chaos/random.js'
import { Hands, settlementOf, workers } from './in-step-hands.js'
import { forever, keepAll, RandomJobs, shownJob } from './in-step-jobs.js'
import { choiceOf, type Traits } from './in-step-traits.js'
import type { Pair, Twice } from './pair.js'
import type { WithoutDesk } from './scripts.js'
import { pickWeighted } from './seeds.js'

type Step = () => Promise<unknown>

const replay: Command = { do: 'retry', delay: 0, spacing: 0, change: {} }

export class InStepRun {
  readonly #random: Random
  readonly #traits: Traits
  readonly #pair: Pair
  readonly #withoutDesk: WithoutDesk
  readonly #jobs: RandomJobs
  readonly #hands: Hands

  constructor(random: Random, traits: Traits, pair: Pair, withoutDesk: WithoutDesk) {
    this.#random = random
    this.#traits = traits
    this.#pair = pair
    this.#withoutDesk = withoutDesk
    this.#jobs = new RandomJobs(random, traits)
    this.#hands = new Hands(random, traits)
  }

  async begin(): Promise<void> {
    const { declared } = this.#traits
    if (declared === undefined) return
    const [gate, change] = declared
    await this.#pair.both('declare', (store) => store.configure({ gate, change, declared: true }))
  }

  async take(): Promise<void> {
    const isCalm = this.#traits.isCalm && this.#random.chance(0.67)
    await pickWeighted(this.#random, isCalm ? this.#calmSteps : this.#allSteps)()
  }

  async compare(): Promise<void> {
    await this.#pair.compare(this.#jobs.ids, this.#jobs.parents.slice(-5))
  }

  async compareAll(): Promise<void> {
    await this.#pair.compare(this.#jobs.ids, this.#jobs.parents)
    await this.#pair.compareLists(this.#jobs.ids)
  }

  readonly #calmSteps: readonly (readonly [number, Step])[] = [
    [10, () => this.#insert()],
    [50, () => this.#exchange()],
    [3, () => this.#pair.beginAnew()],
  ]

  readonly #allSteps: readonly (readonly [number, Step])[] = [
    [30, () => this.#insert()],
    [50, () => this.#exchange()],
    [3, () => this.#pair.beginAnew()],
    [3, () => this.#settleAgain()],
    [4, () => this.#sweepLater()],
    [4, async () => this.#pair.advance(this.#random.pick([1, 5, 30]))],
    [2, () => this.#operate()],
    [1, () => this.#replayDead()],
    [1, () => this.#configure()],
    [1, () => this.#pause()],
    [1, () => this.#crash()],
    [2, () => this.compare()],
  ]

  async #insert(): Promise<void> {
    const jobs = this.#jobs.some()
    const { governed } = this.#jobs
    await this.#pair.both(`insert ${jobs.map(shownJob).join(', ')}`, (store) =>
      this.#withoutDesk.insert(store, jobs, governed),
    )
  }

  async #exchange(): Promise<void> {
    const worker = this.#random.pick(workers)
    const ending = this.#hands.endingOf(worker)
    const room = this.#random.integer(1, 8)
    const claim = this.#random.chance(0.8) ? claimRequest(room, ['main', 'fam']) : undefined
    const ends = ending.map(({ id, outcome }) => `${id} ${outcome.to}`)
    const [expected, answer] = await this.#pair.both(
      `${worker} ends [${ends.join(', ')}], claims ${claim === undefined ? 0 : room}`,
      (store, which) => {
        const settlements = ending.map((one) => settlementOf(one, which))
        return this.#withoutDesk.exchange(store, { worker, settlements, claim }, this.#jobs.governed)
      },
      ({ settled, claimed, opens }) => ({
        settled,
        claimed: withoutTokens(claimed),
        // Who has got all that was asked for need not be told when there will be more.
        opens: claimed.length === room ? undefined : opens,
      }),
    )
    this.#hands.letGo(idsOf(ending))
    this.#hands.take(worker, [expected.claimed, answer.claimed])
    if (claim !== undefined && expected.claimed.length === 0) await this.#extend(worker)
  }

  /** Whether a claim that finds nothing renews the lease is left open. */
  async #extend(worker: string): Promise<void> {
    await this.#pair.both(`${worker} extends`, (store) => store.extend({ worker, lease, held: [] }))
  }

  async #settleAgain(): Promise<void> {
    const stale = this.#hands.stale()
    if (stale === undefined) return
    const { id, worker } = stale
    await this.#pair.both(
      `${worker} ends ${id} in vain`,
      (store, which) => {
        const settlements = [settlementOf({ ...stale, outcome: complete() }, which)]
        return store.exchange({ worker, settlements, claim: undefined })
      },
      ({ settled }) => settled,
    )
  }

  async #sweepLater(): Promise<void> {
    this.#pair.advance(this.#random.pick([1, 5, 20]))
    await this.#sweep()
  }

  #sweep(): Promise<Twice<SweepReport>> {
    return this.#pair.both(
      'sweep',
      (store) => sweep(store),
      (report) => ({ ...report, orphans: withoutTokens(byId(report.orphans)) }),
    )
  }

  async #operate(): Promise<void> {
    const random = this.#random
    const ids = this.#jobs.ids.filter(() => random.chance(0.12)).slice(-4)
    const command = random.pick<Command>([
      { do: 'cancel', reason: 'not wanted', retain: random.pick([0, forever]) },
      replay,
      { do: 'promote' },
      { do: 'remove' },
    ])
    await this.#pair.both(`${command.do} ${ids.join(', ')}`, (store) => store.operate({ ids }, command))
  }

  /** In which order a filter finds jobs is left open. */
  async #replayDead(): Promise<void> {
    await this.#pair.both(
      'replay the dead',
      (store) => operateAll(store, { state: 'dead' }, replay),
      ({ affected, refused }) => ({ affected: sorted(affected), refused: sorted(refused) }),
    )
  }

  async #configure(): Promise<void> {
    const [gate, change] = choiceOf(this.#random)
    await this.#pair.both(`choose ${JSON.stringify([gate, change])}`, (store) =>
      store.configure({ gate, change, declared: false }),
    )
  }

  async #pause(): Promise<void> {
    const paused = this.#random.chance(0.33)
    await this.#pair.both(`paused: ${paused}`, (store) => store.configure({ queue: 'main', paused }))
  }

  async #crash(): Promise<void> {
    this.#pair.advance(lease)
    const [expected, answer] = await this.#sweep()
    const orphans: Twice<readonly OrphanedJob[]> = [byId(expected.orphans), byId(answer.orphans)]
    for (const worker of new Set(orphans[0].map((orphan) => orphan.worker)))
      await this.#pair.both(
        `rescue what ${worker} had`,
        (store, which) => {
          const own = orphans[which].filter((orphan) => orphan.worker === worker)
          return store.exchange({ worker, settlements: own.map(rescueOf), claim: undefined, rescue: true })
        },
        ({ settled }) => settled,
      )
    this.#hands.letGo(idsOf(orphans[0]))
  }
}

function rescueOf(orphan: OrphanedJob): Settlement {
  const { id, token, name } = orphan
  return { id, token, outcome: crashed(orphan, lostWorker(name), keepAll), inserts: undefined }
}

function withoutTokens(jobs: readonly { readonly token: string }[]): unknown[] {
  return jobs.map(({ token, ...job }) => job)
}

function byId(orphans: readonly OrphanedJob[]): readonly OrphanedJob[] {
  return [...orphans].sort((a, b) => (a.id < b.id ? -1 : 1))
}

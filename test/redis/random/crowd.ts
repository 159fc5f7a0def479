/** Four workers in three processes, who add, claim, end and cancel jobs at the same time. */
import assert from 'node:assert/strict'
import { RedisStore } from 'millrace/redis'
import type { ClaimedJob, NewJob } from '../../../src/core/job.js'
import type { Outcome } from '../../../src/core/lifecycle.js'
import type { Settlement, Store } from '../../../src/core/store.js'
import { claimRequest, operateAll, sweep } from '../../../src/testing/conformance/helpers.js'
import { look } from '../../../src/testing/conformance/lockstep-view.js'
import type { Random } from '../../chaos/random.js'
import { damageOf } from '../../chaos/redis-damage.js'
import { admin, freshPrefix, serverUrl } from '../redis.js'
import { audit, auditEnd } from './audit.js'
import { Books } from './books.js'
import {
  type CrowdTraits,
  completion,
  endOf,
  familyOf,
  laterChildren,
  limitedGate,
  mostOf,
  queues,
  singleJobs,
} from './crowd-jobs.js'
import { loseAnswers, type WithoutDesk } from './scripts.js'
import { pickWeighted } from './seeds.js'

type Turns = readonly (readonly [weight: number, turn: () => Promise<unknown>])[]

const workers = [0, 1, 2, 3]
const turnsOfEach = 45
const forever = 1_000_000_000

export class Crowd {
  readonly #prefix = freshPrefix()
  readonly #random: Random
  readonly #traits: CrowdTraits
  readonly #withoutDesk: WithoutDesk
  readonly #makeStore: () => Store
  readonly #stores: Store[]
  readonly #books: Books
  /** Those that have limits or groups. */
  readonly #governed = new Set<string>()

  constructor(random: Random, traits: CrowdTraits, withoutDesk: WithoutDesk) {
    const options = { url: serverUrl(), prefix: this.#prefix, warn: false, shards: traits.shards }
    this.#random = random
    this.#traits = traits
    this.#withoutDesk = withoutDesk
    this.#makeStore = () => new RedisStore(options)
    this.#stores = [0, 1, 2].map(this.#makeStore)
    this.#books = new Books(mostOf(traits))
  }

  async open(): Promise<void> {
    for (const store of this.#stores) await store.open()
    const { limit } = this.#traits
    if (limit === undefined) return
    const change = { limit: { concurrency: limit } }
    await this.#storeOf(0).configure({ gate: limitedGate(this.#traits), change, declared: true })
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close()
  }

  /** All at once, until each has had its turns. */
  async rage(): Promise<void> {
    const answersArrive = this.#traits.losesAnswers ? loseAnswers(this.#random.fork('answers')) : () => {}
    try {
      await Promise.all(workers.map((worker) => this.#act(worker, this.#random.fork(`worker ${worker}`))))
    } finally {
      answersArrive()
    }
    assert.deepEqual(this.#books.wrong, [])
    await audit(this.#storeOf(0), this.#books.ids)
    await this.#expectNoDamage()
  }

  async #act(worker: number, random: Random): Promise<void> {
    const calm: Turns = [
      [this.#traits.isIdle ? 20 : 40, () => this.#insertSingles(worker, random)],
      [this.#traits.isIdle ? 90 : 50, () => this.#work(worker, random)],
      [4, () => this.#beginAnew(worker)],
    ]
    const wild: Turns = [
      ...calm,
      [4, () => this.#insertFamily(worker, random)],
      [4, () => this.#insertChildren(worker, random)],
      [4, () => sweep(this.#storeOf(worker))],
      [2, () => this.#cancel(worker, random)],
      [1, () => this.#replayDead(worker)],
      [1, () => forgetScripts()],
      [2, () => look(this.#storeOf(worker), this.#books.ids.slice(-5))],
    ]
    for (let turn = 0; turn < turnsOfEach; turn++) {
      const isCalm = this.#traits.isCalm && random.chance(0.97)
      await pickWeighted(random, isCalm ? calm : wild)()
    }
  }

  #insertSingles(worker: number, random: Random): Promise<unknown> {
    const jobs = singleJobs(random, this.#traits, this.#books)
    for (const job of jobs) if (this.#isGoverned(job)) this.#governed.add(job.id)
    return this.#withoutDesk.insert(this.#storeOf(worker), jobs, this.#governed)
  }

  #isGoverned(job: NewJob): boolean {
    const isLimited = this.#traits.limit !== undefined && mostOf(this.#traits).of(job)
    return isLimited || job.traffic?.group !== undefined
  }

  async #insertFamily(worker: number, random: Random): Promise<void> {
    const [top, ...children] = familyOf(random, this.#books)
    this.#books.expectFamily(top, children)
    await this.#storeOf(worker).insert([top, ...children])
  }

  async #insertChildren(worker: number, random: Random): Promise<void> {
    const parents = this.#books.parents.slice(-3)
    if (parents.length === 0) return
    const top = random.pick(parents)
    const children = laterChildren(top, random, this.#books)
    const wasLate = this.#books.hasBegun(top)
    const results = await this.#storeOf(worker).insert(children)
    this.#books.joined(top, children, results, wasLate)
  }

  #work(worker: number, random: Random): Promise<void> {
    const ending = this.#books.heldBy(nameOf(worker)).filter(() => random.chance(0.67))
    return this.#exchange(worker, ending, () => endOf(random), random.integer(1, 8))
  }

  async #exchange(
    number: number,
    ending: readonly ClaimedJob[],
    end: () => Outcome,
    room: number,
  ): Promise<void> {
    const worker = nameOf(number)
    const settlements = ending.map(({ id, token }): Settlement => {
      return { id, token, outcome: end(), inserts: undefined }
    })
    this.#books.settling(settlements)
    const claim = { ...claimRequest(room, queues), lasting: true }
    const request = { worker, settlements, claim }
    const result = await this.#withoutDesk.exchange(this.#storeOf(number), request, this.#governed)
    // What is sent again after a lost answer has been settled already.
    if (!this.#traits.losesAnswers) this.#books.settled(settlements, result.settled)
    this.#books.claimed(worker, result.claimed)
  }

  /** With a process that knows nothing of what happened before, and so tries again what has failed. */
  async #beginAnew(worker: number): Promise<void> {
    const others = workers.filter((other) => other !== worker)
    // Others are in the midst of what they do.
    if (others.some((other) => this.#placeOf(other) === this.#placeOf(worker))) return
    const store = this.#makeStore()
    await this.#storeOf(worker).close()
    await store.open()
    this.#stores[this.#placeOf(worker)] = store
  }

  async #cancel(worker: number, random: Random): Promise<void> {
    const { ids } = this.#books
    if (ids.length === 0) return
    const id = random.pick(ids)
    this.#books.cancelling(id)
    await this.#storeOf(worker).operate(
      { ids: [id] },
      { do: 'cancel', reason: 'not wanted', retain: forever },
    )
  }

  async #replayDead(worker: number): Promise<void> {
    const command = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
    await operateAll(this.#storeOf(worker), { state: 'dead' }, command)
  }

  /** Every job gets done; then nothing is left of them. */
  async drain(): Promise<void> {
    for (let round = 1, left = await this.#left(); left > 0; round++, left = await this.#left()) {
      assert.ok(round < 400, `${left} jobs are left after ${round} rounds`)
      await sweep(this.#storeOf(1))
      for (const worker of workers)
        await this.#exchange(worker, this.#books.heldBy(nameOf(worker)), () => completion(this.#random), 8)
    }
    assert.deepEqual(this.#books.wrong, [])
    await auditEnd(this.#storeOf(0), this.#books.ids, this.#books.parents)
    await this.#expectNoDamage()
  }

  /** In what the server has of it, shard by shard. */
  async #expectNoDamage(): Promise<void> {
    for (let shard = 0; shard < this.#traits.shards; shard++) {
      const damage = await admin((redis) => damageOf(redis, `{${this.#prefix}:${shard}}`))
      assert.equal(damage, 'ok', `shard ${shard}`)
    }
  }

  async #left(): Promise<number> {
    const { kinds } = await this.#storeOf(2).counts()
    return kinds.reduce(
      (sum, { states: { pending, running, retrying, scheduled } }) =>
        sum + pending + running + retrying + scheduled,
      0,
    )
  }

  #storeOf(worker: number): Store {
    return this.#stores[this.#placeOf(worker)] as Store
  }

  #placeOf(worker: number): number {
    return worker % this.#stores.length
  }
}

function nameOf(worker: number): string {
  return `worker-${worker}`
}

function forgetScripts(): Promise<unknown> {
  return admin((redis) => redis.script('FLUSH'))
}

/** One lockstep run: its steps, what is looked at after each, and its end. */
import assert from 'node:assert/strict'
import { isFinal } from '../../core/job.js'
import type { TrafficChange, TrafficSettings } from '../../core/traffic/settings.js'
import type { StoreHarness } from './harness.js'
import { allAlike, forever, LockstepCalls, type Process, same } from './lockstep-calls.js'
import { LockstepRequests } from './lockstep-requests.js'
import { type LockstepSettlement, type LockstepStep, type LockstepVerb, lease } from './lockstep-steps.js'
import { checkCounts, checkLists, look, type StoreView, shown, trailsOf } from './lockstep-view.js'
import { names, queues } from './traffic-parts.js'

export class LockstepRun {
  readonly #harnesses: readonly StoreHarness[]
  readonly #requests: LockstepRequests
  readonly #calls: LockstepCalls
  readonly #first: Process
  /** How far clocks were set back: leases last that much longer. */
  #behind = 0
  /** Opened when first needed. */
  #second: Process | undefined

  constructor(harnesses: readonly StoreHarness[]) {
    this.#harnesses = harnesses
    this.#requests = new LockstepRequests(harnesses.length)
    this.#calls = new LockstepCalls(this.#requests)
    this.#first = { worker: 'v', stores: harnesses.map(({ store }) => store) }
  }

  async take(step: LockstepStep): Promise<void> {
    switch (step.step) {
      case 'turn': {
        const process = await this.#process(step.handle)
        await this.#turn(process, step.verbs)
        break
      }
      case 'advance':
        await this.#advance(step.ms)
        break
      case 'set back':
        this.#setBack(step.ms)
        break
      case 'crash':
        await this.#crash(step.vanish)
        break
    }
    await this.#look()
  }

  /** An engine with several connections does in any order what is asked for at once. */
  async #turn(process: Process, verbs: readonly LockstepVerb[]): Promise<void> {
    if (this.#harnesses.every(({ overtakes }) => overtakes !== true)) {
      await Promise.all(verbs.map((verb) => this.#calls.call(process, verb)))
      return
    }
    for (const verb of verbs) await this.#calls.call(process, verb)
  }

  async #process(handle: 0 | 1): Promise<Process> {
    if (handle === 0) return this.#first
    this.#second ??= { worker: 'w', stores: await Promise.all(this.#harnesses.map(secondHandle)) }
    return this.#second
  }

  async #advance(ms: number): Promise<void> {
    for (const harness of this.#harnesses) await harness.advance(ms)
  }

  /** All clocks or none. */
  #setBack(ms: number): void {
    if (this.#harnesses.some(({ jump }) => jump === undefined)) return
    for (const { jump } of this.#harnesses) jump?.(-ms)
    this.#behind += ms
  }

  async #crash(vanish: boolean): Promise<void> {
    await this.#advance(lease + this.#behind)
    await this.#do({ verb: 'sweep' })
    await this.#do({ verb: 'rescue', vanish })
  }

  #do(verb: LockstepVerb): Promise<unknown> {
    return this.#calls.call(this.#first, verb)
  }

  /** With one handle alone, because a look makes a handle forget what is old. */
  async #look(): Promise<StoreView> {
    const views = await Promise.all(this.#first.stores.map((store) => look(store, this.#requests.ids)))
    allAlike(views.map(shown))
    const last = views.at(-1) as StoreView
    checkCounts(last)
    return last
  }

  /** What takes more calls to read. */
  async lookAtAll(): Promise<void> {
    const view = await this.#look()
    const { stores } = this.#first
    for (const store of stores) await checkLists(store, view)
    await same(stores.map((store) => trailsOf(store, this.#requests.ids)))
    await same(stores.map((store) => store.causes()))
  }

  /** Everything is opened, time goes on, and every job gets done; then nothing is left of groups and keys. */
  async drain(): Promise<void> {
    await this.#crash(false)
    await this.#openAll()
    const most = this.#requests.ids.length * 4 + 50
    for (let i = 0, left = await this.#live(); left > 0; i++, left = await this.#live()) {
      assert.ok(i < most, `${left} jobs are left after ${i} claims`)
      await this.#drainOnce()
    }
    await this.#advance(2_000)
    await this.#do({ verb: 'sweep' })
    const { gates } = await this.#look()
    const left = gates.filter(({ ref }) => ref.of === 'group' || ref.of === 'key')
    assert.deepEqual(left, [], 'no group and no key is left behind')
  }

  /** Settings are taken back, and what only an operator can set free is. */
  async #openAll(): Promise<void> {
    const { gates } = await this.#look()
    for (const { ref: gate, declared, chosen } of gates) {
      await this.#do({ verb: 'configure', gate, change: nothingOf(declared), declared: true })
      await this.#do({ verb: 'configure', gate, change: nothingOf(chosen), declared: false })
    }
    for (const job of names) await this.#do({ verb: 'breaker', job, to: 'closed' })
    for (const queue of queues) await this.#do({ verb: 'pause', queue, paused: false })
    const command = { do: 'cancel', reason: 'the end', retain: forever } as const
    await this.#do({ verb: 'operate', state: 'blocked', queue: undefined, command })
  }

  async #live(): Promise<number> {
    const { records } = await this.#look()
    return records.filter((record) => record !== undefined && !isFinal(record.state)).length
  }

  async #drainOnce(): Promise<void> {
    const settlements = this.#requests.heldBy(this.#first.worker).map(() => completion)
    const claim = { count: 8, queues, strict: true }
    const { claimed, opens } = await this.#calls.exchange(this.#first, {
      verb: 'exchange',
      settlements,
      claim,
    })
    if (claimed.length > 0 || opens === 0) return
    const { nextDue } = await this.#calls.sweep(this.#first)
    const wait = Math.min(opens ?? forever, nextDue ?? forever)
    if (wait < forever) await this.#advance(wait)
  }
}

const completion: LockstepSettlement = {
  wrong: undefined,
  outcome: { to: 'complete' },
  vanish: false,
  report: false,
  inserts: undefined,
}

/** A store that nobody can share does it all with one. */
async function secondHandle({ store, second }: StoreHarness) {
  return (await second?.()) ?? store
}

function nothingOf(settings: TrafficSettings): TrafficChange {
  return Object.fromEntries(Object.keys(settings).map((field) => [field, null]))
}

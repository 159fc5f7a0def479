/**
 * Random runs of jobs and callers that share a few keys, with crashes, replays and clocks that go on: whoever works
 * under a key does so alone, what is stored is what its holder gave, and in the end no key is left taken.
 */
import assert from 'node:assert/strict'
import type { Arbitrary } from 'fast-check'
import { type ClaimedJob, isFinal } from '../../core/job.js'
import { type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import {
  claim,
  complete,
  die,
  fresh,
  insertOne,
  lease,
  rescue,
  retryIn,
  settle,
  stop,
  sweep,
} from './helpers.js'
import type { FastCheck } from './model-steps.js'
import { checkProperty, type PropertyOptions } from './property.js'
import { done } from './steps.js'

const keys = ['a', 'b'] as const
const retain = 20_000
const callerLease = 5_000

type Step =
  | { readonly do: 'insert'; readonly key: string; readonly kept: boolean; readonly unwinds: boolean }
  | { readonly do: 'claim'; readonly handle: number }
  | { readonly do: 'settle'; readonly which: number; readonly how: How }
  | { readonly do: 'crash' }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'operate'; readonly which: number; readonly command: 'cancel' | 'retry' | 'remove' }
  | {
      readonly do: 'call'
      readonly key: string
      readonly caller: string
      readonly word: 'begin' | 'complete' | 'fail'
    }

type How = 'complete' | 'die' | 'stop' | 'retry' | 'release' | 'snooze'

export async function checkGuards(
  options: PropertyOptions & { readonly make: () => Promise<StoreHarness> },
): Promise<void> {
  const complaint = 'work under a key was not done by one at a time'
  await checkProperty(complaint, options, stepsOf, async (steps, at) => {
    const harness = await options.make()
    try {
      const world = await World.of(harness)
      for (const step of steps) await at(step.do, () => world.take(step))
      await at('the end', () => world.end())
    } finally {
      await harness.close()
    }
  })
}

function stepsOf(fc: FastCheck): Arbitrary<Step[]> {
  const which = fc.nat(20)
  const ms = fc.constantFrom(1, 1_000, 6_000, 21_000)
  const key = fc.constantFrom(...keys)
  const how = fc.constantFrom<How>('complete', 'complete', 'die', 'stop', 'retry', 'release', 'snooze')
  const word = fc.constantFrom('begin' as const, 'begin' as const, 'complete' as const, 'fail' as const)
  const caller = fc.constantFrom('x', 'y')
  const command = fc.constantFrom('cancel' as const, 'retry' as const, 'remove' as const)
  const step: Arbitrary<Step> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('insert' as const),
        key,
        kept: fc.boolean(),
        unwinds: fc.boolean(),
      }),
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('claim' as const), handle: fc.nat(1) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('settle' as const), which, how }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('operate' as const), which, command }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('call' as const), key, caller, word }) },
  )
  return fc.array(step, { minLength: 10, maxLength: 60, size: 'max' })
}

/** Who has a key: a job until it ends, a caller until its time is over. */
interface Holding {
  readonly holder: string
  readonly until: number
}

interface Stored {
  readonly result: string
  readonly by: string
  readonly until: number
}

class World {
  readonly #stores: readonly Store[]
  readonly #advance: StoreHarness['advance']
  #now = 0
  #results = 0
  #claims = 0
  readonly #keyOf = new Map<string, string>()
  readonly #kept = new Map<string, boolean>()
  /** Those whose runs leave something done. */
  readonly #unwinding = new Set<string>()
  readonly #jobs: string[] = []
  /** Leases that may still stand, and who has them. */
  #held: { readonly job: ClaimedJob; readonly worker: string }[] = []
  readonly #holding = new Map<string, Holding>()
  readonly #stored = new Map<string, Stored>()
  /** What the job that has the key gave before it was replayed. */
  readonly #before = new Map<string, Stored>()

  static async of({ store, second, advance }: StoreHarness): Promise<World> {
    return new World([store, ...(second === undefined ? [] : [await second()])], advance)
  }

  private constructor(stores: readonly Store[], advance: StoreHarness['advance']) {
    this.#stores = stores
    this.#advance = advance
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'insert': {
        const guard = { key: step.key, retain }
        const id = await insertOne(this.#store(), { guard, unwinds: step.unwinds, maxCrashes: 1_000 })
        if (step.unwinds) this.#unwinding.add(id)
        this.#jobs.push(id)
        this.#keyOf.set(id, step.key)
        this.#kept.set(id, step.kept)
        return
      }
      case 'claim':
        return this.#claim(step.handle)
      case 'settle':
        return this.#settle(step.which, step.how)
      case 'crash':
        return this.#crash()
      case 'pass':
        return this.#pass(step.ms)
      case 'operate':
        return this.#operate(step.which, step.command)
      case 'call':
        return this.#call(step)
    }
  }

  async #claim(handle: number): Promise<void> {
    const worker = `worker-${handle}-${++this.#claims}`
    const [job] = await claim(this.#store(handle), 1, { worker, leaseMs: lease })
    if (job === undefined) return
    const key = this.#keyOf.get(job.id) as string
    const { status, result } = job.guard ?? {}
    const stored = this.#storedUnder(key)
    const holder = this.#holderOf(key)
    if (stored?.by === job.id) {
      assert.equal(status, 'begun', 'what it did itself is to be done again')
      this.#holding.set(key, { holder: job.id, until: Number.POSITIVE_INFINITY })
      this.#before.set(key, stored)
      this.#stored.delete(key)
    } else if (holder === job.id) assert.equal(status, 'begun', 'it goes on under its own key')
    else if (stored !== undefined) assert.deepEqual([status, result], ['done', stored.result])
    else if (holder !== undefined) assert.equal(status, 'busy', `${holder} has the key`)
    else {
      assert.equal(status, 'begun', 'the key is free')
      this.#holding.set(key, { holder: job.id, until: Number.POSITIVE_INFINITY })
    }
    this.#held.push({ job, worker })
  }

  /** As a worker does: what was done before is not done again, and what another does is put off. */
  async #settle(which: number, how: How): Promise<void> {
    const entry = this.#held[which % Math.max(1, this.#held.length)]
    if (entry === undefined) return
    this.#held = this.#held.filter((one) => one !== entry)
    const { job, worker } = entry
    const result = `"${++this.#results}"`
    const outcome = this.#outcome(job, how, result)
    const unwinds = this.#unwinding.has(job.id)
    const report = { progress: undefined, logs: undefined, steps: [done('s')] }
    const options = unwinds ? { worker, report } : { worker }
    assert.equal(await settle(this.#store(), job, outcome, options), 'applied')
    const key = this.#keyOf.get(job.id) as string
    if (job.guard?.status === 'begun' && outcome.to === 'completed') this.#keep(key, job.id, result)
    else if (unwinds && outcome.to === 'dead') this.#dieWithKey(key, job.id, outcome.retain)
    else if (isFinal(outcome.to)) this.#letGo(key, job.id)
  }

  #outcome(job: ClaimedJob, how: How, result: string): Outcome {
    const keep = this.#kept.get(job.id) ? undefined : { completed: 0, dead: 0 }
    if (job.guard?.status === 'busy') return snoozed(job.guard.retryIn ?? 0)
    if (job.guard?.status === 'done') return complete(job.guard.result, keep)
    const outcomes: Record<How, Outcome> = {
      complete: complete(result, keep),
      die: die(undefined, keep),
      stop: stop('no', keep),
      retry: retryIn(500),
      release: released(),
      snooze: snoozed(500),
    }
    return outcomes[how]
  }

  /** All workers are lost; what they held comes back, and what they say later is refused. */
  async #crash(): Promise<void> {
    await this.#pass(lease)
    for (const orphan of (await sweep(this.#store())).orphans)
      assert.equal(await rescue(this.#store(), orphan), 'applied')
    const zombies = this.#held
    this.#held = []
    for (const { job, worker } of zombies)
      assert.equal(await settle(this.#store(), job, complete('"late"'), { worker }), 'lost')
  }

  async #pass(ms: number): Promise<void> {
    await this.#advance(ms)
    this.#now += ms
    await sweep(this.#store())
    for (const [key, { until }] of this.#holding) if (until <= this.#now) this.#holding.delete(key)
  }

  async #operate(which: number, command: 'cancel' | 'retry' | 'remove'): Promise<void> {
    const id = this.#jobs[which % Math.max(1, this.#jobs.length)]
    if (id === undefined) return
    const [before] = await this.#store().get([id])
    if (before === undefined || before.state === 'running') return
    const words = {
      cancel: { do: 'cancel', reason: 'no', retain: 60_000 },
      retry: { do: 'retry', delay: 0, spacing: 0, change: {} },
      remove: { do: 'remove' },
    } as const
    const { affected } = await this.#store().operate({ ids: [id] }, words[command])
    if (affected.length === 0) return
    const key = this.#keyOf.get(id) as string
    if (command !== 'retry') return this.#letGo(key, id)
    if (this.#holderOf(key) === id) this.#holding.set(key, { holder: id, until: Number.POSITIVE_INFINITY })
  }

  async #call({ key, caller, word }: Extract<Step, { do: 'call' }>): Promise<void> {
    const holder = `caller-${caller}`
    const result = `"${++this.#results}"`
    const store = this.#store()
    const has = this.#holderOf(key) === holder
    if (word === 'begin') {
      const stored = this.#storedUnder(key)
      const other = this.#holderOf(key)
      const found = await store.guard({ do: 'begin', key, holder, lease: callerLease })
      if (stored !== undefined) assert.deepEqual([found.status, found.result], ['done', stored.result])
      else if (other !== undefined && !has) assert.equal(found.status, 'busy')
      else {
        assert.equal(found.status, 'begun')
        this.#holding.set(key, { holder, until: this.#now + callerLease })
      }
      return
    }
    const stored = this.#stored.get(key)
    const request = word === 'fail' ? { do: word, key, holder } : { do: word, key, holder, result, retain }
    const { status } = await store.guard(request)
    if (has) {
      assert.equal(status, 'applied')
      if (word === 'fail') this.#letGo(key, holder)
      else this.#keep(key, holder, result)
    } else if (word === 'complete' && stored?.by === holder && this.#storedUnder(key) !== undefined) {
      assert.equal(status, 'applied', 'a word repeated')
    } else {
      assert.equal(status, 'lost')
    }
  }

  /** All that is left gets done, and then every key is free or remembers. */
  async end(): Promise<void> {
    await this.#crash()
    for (let which = 0; which < this.#jobs.length; which++) await this.#operate(which, 'retry')
    for (let round = 0; round < 100; round++) {
      await this.#pass(6_000)
      for (let i = 0; i < this.#jobs.length; i++) {
        await this.#claim(0)
        await this.#settle(0, 'complete')
      }
      const jobs = await this.#store().get(this.#jobs)
      if (jobs.every((job) => job === undefined || isFinal(job.state))) return this.#allFree()
    }
    assert.fail('jobs wait for a key that nobody has')
  }

  async #allFree(): Promise<void> {
    await this.#pass(callerLease)
    for (const key of keys) {
      const { status } = await this.#store().guard({ do: 'begin', key, holder: fresh('last'), lease: 1 })
      assert.equal(status, this.#storedUnder(key) === undefined ? 'begun' : 'done')
    }
  }

  #store(handle = 0): Store {
    return this.#stores[handle % this.#stores.length] as Store
  }

  #holderOf(key: string): string | undefined {
    return this.#holding.get(key)?.holder
  }

  #storedUnder(key: string): Stored | undefined {
    const stored = this.#stored.get(key)
    return stored !== undefined && stored.until > this.#now ? stored : undefined
  }

  #keep(key: string, holder: string, result: string): void {
    assert.equal(this.#holderOf(key), holder)
    this.#holding.delete(key)
    this.#before.delete(key)
    this.#stored.set(key, { result, by: holder, until: this.#now + retain })
  }

  /** It has the key as long as it is kept, unless an earlier result of it stands. */
  #dieWithKey(key: string, holder: string, kept: number): void {
    if (this.#holderOf(key) !== holder) return
    if (kept === 0 || this.#before.has(key)) return this.#letGo(key, holder)
    this.#holding.set(key, { holder, until: this.#now + kept })
  }

  #letGo(key: string, holder: string): void {
    if (this.#holderOf(key) !== holder) return
    this.#holding.delete(key)
    const before = this.#before.get(key)
    if (before !== undefined) this.#stored.set(key, before)
    this.#before.delete(key)
  }
}

/** One lockstep run: every verb called on each store, and the answers compared. */
import assert from 'node:assert/strict'
import type { FlowChange, FlowSettings } from '../../core/flow/settings.js'
import { crashed } from '../../core/lifecycle.js'
import type { Command, ExchangeResult, OrphanedJob, Selector, Store, SweepReport } from '../../core/store.js'
import { limiter, names, queues } from './flow-parts.js'
import type { StoreHarness } from './harness.js'
import { lostWorker, sorted, sweep } from './helpers.js'
import { LockstepRequests, settlementsFor } from './lockstep-requests.js'
import { type LockstepStep, type LockstepVerb, lease } from './lockstep-steps.js'
import { checkCounts, checkLists, look, type StoreView, shown, trailsOf } from './lockstep-view.js'

const forever = 1_000_000_000

export class LockstepRun {
  readonly #harnesses: readonly StoreHarness[]
  readonly #requests: LockstepRequests
  /** Second handles, opened when first needed; a store that has none does it all with one. */
  #seconds: readonly Store[] | undefined
  /** As each store named them in the last sweep. */
  #orphans: readonly (readonly OrphanedJob[])[]

  constructor(harnesses: readonly StoreHarness[]) {
    this.#harnesses = harnesses
    this.#requests = new LockstepRequests(harnesses.length)
    this.#orphans = harnesses.map(() => [])
  }

  async take(step: LockstepStep): Promise<void> {
    switch (step.step) {
      case 'turn': {
        const stores = await this.#handles(step.handle)
        await Promise.all(step.verbs.map((verb) => this.#call(stores, ofProcess(step.handle, verb))))
        break
      }
      case 'advance':
        await this.#advance(step.ms)
        break
      case 'crash':
        await this.#crash(step.vanish)
        break
    }
    await this.#look()
  }

  get #firsts(): readonly Store[] {
    return this.#harnesses.map(({ store }) => store)
  }

  async #handles(handle: 0 | 1): Promise<readonly Store[]> {
    if (handle === 0) return this.#firsts
    this.#seconds ??= await Promise.all(
      this.#harnesses.map(async ({ store, second }) => (await second?.()) ?? store),
    )
    return this.#seconds
  }

  /** Calls the stores before it waits for anything, so that verbs of one turn keep their order. */
  #call(stores: readonly Store[], verb: LockstepVerb): Promise<unknown> {
    switch (verb.verb) {
      case 'insert': {
        const jobs = verb.jobs.map((job) => this.#requests.job(job))
        return same(stores.map((store) => store.insert(jobs)))
      }
      case 'exchange':
        return this.#exchange(stores, verb)
      case 'extend':
        return this.#extend(stores, verb.worker)
      case 'sweep':
        return this.#sweep(stores)
      case 'rescue':
        return this.#rescue(stores, verb.vanish)
      case 'operate on ids': {
        const ids = verb.ids.map((back) => this.#requests.idAt(back))
        return same(stores.map((store) => store.operate({ ids }, verb.command)))
      }
      case 'operate': {
        const selector: Selector = { filter: { state: verb.state, queue: verb.queue }, limit: 1000 }
        return this.#operate(stores, selector, verb.command)
      }
      case 'configure': {
        const { gate, change, declared } = verb
        return same(stores.map((store) => store.configure({ gate, change, declared })))
      }
      case 'pause': {
        const { queue, paused } = verb
        return same(stores.map((store) => store.configure({ queue, paused })))
      }
      case 'breaker':
        return same(stores.map((store) => store.configure({ job: verb.job, breaker: verb.to })))
      case 'acquire':
        return same(stores.map((store) => store.acquire({ limiter, permits: verb.permits })))
    }
  }

  async #exchange(
    stores: readonly Store[],
    step: Extract<LockstepVerb, { verb: 'exchange' }>,
  ): Promise<ExchangeResult> {
    const { worker } = step
    const settlings = this.#requests.settlings(worker, step.settlements)
    const claim = step.claim && this.#requests.claim(worker, step.claim)
    const results = await Promise.all(
      stores.map((store, i) => store.exchange({ worker, settlements: settlementsFor(i, settlings), claim })),
    )
    const withoutTokens = results.map(({ claimed, ...rest }) => ({
      ...rest,
      claimed: claimed.map(({ token, ...job }) => job),
    }))
    allAlike(withoutTokens)
    const first = results[0] as ExchangeResult
    this.#requests.settled(settlings, first.settled)
    this.#requests.given(
      worker,
      results.map(({ claimed }) => claimed),
    )
    // Whether a claim that finds nothing renews the lease is left open.
    if (claim !== undefined && first.claimed.length === 0)
      for (const store of stores) await store.extend({ worker, lease, held: [] })
    return first
  }

  async #extend(stores: readonly Store[], worker: string): Promise<void> {
    const given = this.#requests.heldBy(worker)
    const results = await Promise.all(
      stores.map((store, i) => {
        const held = given.map(({ id, tokens }) => {
          return { id, token: tokens[i] as string, progress: '"half"', logs: undefined }
        })
        return store.extend({ worker, lease, held })
      }),
    )
    allAlike(results)
  }

  async #sweep(stores: readonly Store[]): Promise<SweepReport> {
    const reports = await Promise.all(stores.map((store) => sweep(store)))
    this.#orphans = reports.map(({ orphans }) => [...orphans].sort((a, b) => (a.id < b.id ? -1 : 1)))
    allAlike(
      reports.map((report, i) => ({
        ...report,
        orphans: this.#orphans[i]?.map(({ token, ...orphan }) => orphan),
      })),
    )
    return reports[0] as SweepReport
  }

  async #rescue(stores: readonly Store[], vanish: boolean): Promise<void> {
    const keep = { completed: vanish ? 0 : forever, dead: vanish ? 0 : forever }
    const orphans = this.#orphans
    for (const worker of new Set(orphans[0]?.map((orphan) => orphan.worker))) {
      const settled = stores.map((store, i) => {
        const settlements = (orphans[i] as readonly OrphanedJob[])
          .filter((orphan) => orphan.worker === worker)
          .map((orphan) => ({
            id: orphan.id,
            token: orphan.token,
            outcome: crashed(orphan, lostWorker(orphan.name), keep),
            inserts: undefined,
          }))
        return store.exchange({ worker, settlements, claim: undefined, rescue: true })
      })
      await same(settled)
    }
  }

  /** In which order a filter finds jobs is left open. */
  async #operate(stores: readonly Store[], selector: Selector, command: Command): Promise<void> {
    const reports = await Promise.all(stores.map((store) => store.operate(selector, command)))
    allAlike(
      reports.map(({ affected, asked, refused, ...rest }) => ({
        ...rest,
        affected: sorted(affected),
        asked: sorted(asked),
        refused: sorted(refused),
      })),
    )
  }

  async #advance(ms: number): Promise<void> {
    for (const harness of this.#harnesses) await harness.advance(ms)
  }

  async #crash(vanish: boolean): Promise<void> {
    await this.#advance(lease)
    await this.#sweep(this.#firsts)
    await this.#rescue(this.#firsts, vanish)
  }

  /** With one handle alone, because a look makes a handle forget what is old. */
  async #look(): Promise<StoreView> {
    const views = await Promise.all(this.#firsts.map((store) => look(store, this.#requests.ids)))
    allAlike(views.map(shown))
    const last = views.at(-1) as StoreView
    checkCounts(last)
    return last
  }

  /** What takes more calls to read. */
  async lookAtAll(): Promise<void> {
    const view = await this.#look()
    for (const store of this.#firsts) await checkLists(store, view)
    await same(this.#firsts.map((store) => trailsOf(store, this.#requests.ids)))
    await same(this.#firsts.map((store) => store.causes()))
  }

  /** Everything is opened, time goes on, and every job gets done; then nothing is left of groups and keys. */
  async drain(): Promise<void> {
    await this.#crash(false)
    await this.#openAll()
    let left = await this.#live()
    for (let i = 0; left > 0; i++) {
      assert.ok(i < 200, `${left} jobs are left`)
      await this.#drainOnce()
      left = await this.#live()
    }
    await this.#advance(2_000)
    await this.#sweep(this.#firsts)
    const { gates } = await this.#look()
    assert.deepEqual(
      gates.filter(({ ref }) => ref.of === 'group' || ref.of === 'key'),
      [],
      'none is left behind',
    )
  }

  async #drainOnce(): Promise<void> {
    const outcome = { to: 'complete' } as const
    const settlements = this.#requests
      .heldBy('v')
      .map(() => ({ wrong: undefined, outcome, vanish: false, report: false, inserts: undefined }))
    const claim = { count: 8, queues, strict: true }
    const { claimed, opens } = await this.#exchange(this.#firsts, {
      verb: 'exchange',
      worker: 'v',
      settlements,
      claim,
    })
    if (claimed.length > 0 || opens === 0) return
    const { nextDue } = await this.#sweep(this.#firsts)
    const wait = Math.min(opens ?? forever, nextDue ?? forever)
    if (wait < forever) await this.#advance(wait)
  }

  async #openAll(): Promise<void> {
    const { gates } = await this.#look()
    for (const { ref: gate, declared, chosen } of gates) {
      await this.#call(this.#firsts, { verb: 'configure', gate, change: nothingOf(declared), declared: true })
      await this.#call(this.#firsts, { verb: 'configure', gate, change: nothingOf(chosen), declared: false })
    }
    for (const job of names) await this.#call(this.#firsts, { verb: 'breaker', job, to: 'closed' })
    for (const queue of queues) await this.#call(this.#firsts, { verb: 'pause', queue, paused: false })
    // Nothing ends their wait but an operator.
    const command = { do: 'cancel', reason: 'the end', retain: forever } as const
    await this.#call(this.#firsts, { verb: 'operate', state: 'blocked', queue: undefined, command })
  }

  async #live(): Promise<number> {
    const { records } = await this.#look()
    return records.filter((record) => record !== undefined && record.finishedAt === undefined).length
  }
}

/** A worker lives in one process. */
function ofProcess(handle: 0 | 1, verb: LockstepVerb): LockstepVerb {
  return 'worker' in verb ? { ...verb, worker: `${verb.worker}${handle}` } : verb
}

function nothingOf(settings: FlowSettings): FlowChange {
  return Object.fromEntries(Object.keys(settings).map((field) => [field, null]))
}

async function same(answers: readonly Promise<unknown>[]): Promise<void> {
  allAlike(await Promise.all(answers))
}

function allAlike(seen: readonly unknown[]): void {
  for (const one of seen.slice(1)) assert.deepEqual(one, seen[0])
}

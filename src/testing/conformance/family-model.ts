/**
 * Random families: jobs with parents in all shapes, ended, replayed, cancelled, removed and lost in all orders. After
 * each step the counts are those of the links, no open link is of a job that has ended, and no parent waits for
 * nothing; at the end everything gets done (I10). With a reference, both show the same all along.
 */
import assert from 'node:assert/strict'
import { type FailurePolicy, type Family, type LinkRecord, standsInTheWay } from '../../core/family.js'
import { isFinal, type JobRecord, type NewJob } from '../../core/job.js'
import { crashed, type Outcome, released, waiting } from '../../core/lifecycle.js'
import type { Command, ExtendResult, Store, Held as StoreHeld } from '../../core/store.js'
import { childOf, linksOf, parent } from './family-jobs.js'
import { type EndStep, type FamilyStep, familyStepsOf, type RelativeStep } from './family-steps.js'
import type { StoreHarness } from './harness.js'
import {
  claimRequest,
  complete,
  die,
  failureOf,
  lease,
  lostWorker,
  newJob,
  plain,
  retryIn,
  stop,
  sweep,
} from './helpers.js'
import { allAlike, same } from './lockstep-calls.js'
import { checkCounts, checkLists, look, type StoreView, shown } from './lockstep-view.js'
import { checkProperty, type PropertyOptions } from './property.js'

export interface FamilyModelOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
  readonly reference?: (() => Promise<StoreHarness>) | undefined
}

export function checkFamilies({ make, reference, ...options }: FamilyModelOptions): Promise<void> {
  return checkProperty('families part, or wait for ever', options, familyStepsOf, async (steps, at) => {
    const harnesses: StoreHarness[] = []
    try {
      if (reference !== undefined) harnesses.push(await reference())
      harnesses.push(await make())
      const run = new FamilyRun(harnesses)
      for (const step of steps) await at(step.step, () => run.take(step))
      await at('drain', () => run.drain())
    } finally {
      for (const harness of harnesses) await harness.close()
    }
  })
}

const forever = { completed: 1e9, dead: 1e9 }
const nothing = { completed: 0, dead: 0 }

interface Held {
  readonly id: string
  /** One for each store. */
  readonly tokens: readonly string[]
}

class FamilyRun {
  readonly #harnesses: readonly StoreHarness[]
  readonly #stores: readonly Store[]
  readonly #ids: string[] = []
  readonly #inserts: (readonly NewJob[])[] = []
  #held: Held[] = []
  readonly #wakes = new Set<string>()
  /** Jobs that have died, whatever became of them since then. */
  readonly #died = new Set<string>()
  /** Jobs that have run. */
  readonly #ran = new Set<string>()
  /** The last child that a step of each job has added, and the fan of each such child. */
  readonly #lastOfStep = new Map<string, string>()
  readonly #fanOf = new Map<string, string>()
  /** How the children of closed fans ended. */
  readonly #closed = new Map<string, readonly LinkRecord[]>()
  /** Jobs that wait for a fan. */
  readonly #waitFor = new Map<string, string>()
  #serial = 0

  constructor(harnesses: readonly StoreHarness[]) {
    this.#harnesses = harnesses
    this.#stores = harnesses.map(({ store }) => store)
  }

  async take(step: FamilyStep): Promise<void> {
    switch (step.step) {
      case 'insert':
        await this.#insert(step.jobs)
        break
      case 'insert again':
        await this.#add(this.#inserts.at(-1 - step.back) ?? [])
        break
      case 'exchange':
        await this.#exchange(step.ends, step.child, step.claim)
        break
      case 'extend':
        await this.#extend(step.run, step.policy, step.fan)
        break
      case 'close':
        await this.#close(step.run, step.fan)
        break
      case 'operate':
        await this.#operate(this.#idAt(step.job), commandOf(step.command))
        break
      case 'crash':
        await this.#crash()
        break
      case 'sweep':
        await this.#sweep(step.advance)
        break
    }
    await this.#look()
  }

  async #insert(steps: readonly RelativeStep[]): Promise<void> {
    const ids = steps.map(() => this.#newId())
    const within = steps.map((step, i) => step.within.filter((place) => place < i))
    const isParent = (i: number) => within.some((places) => places.includes(i))
    const jobs = steps.map((step, i): NewJob => {
      const id = ids[i] as string
      const earlier = step.earlier.map((back) => this.#idAt(back + steps.length))
      const parents = [
        ...new Set([...(within[i] as number[]).map((place) => ids[place] as string), ...earlier]),
      ]
      const waits = step.open ? 'open' : isParent(i) ? 'sealed' : 'no'
      if (step.wakes) this.#wakes.add(id)
      if (parents.length === 0)
        return waits === 'no' ? newJob({ id }) : parent({ id }, { waits, patience: 5_000 })
      return childOf(parents, { id }, { onFailure: step.policy, wakes: step.wakes, waits })
    })
    const [only] = jobs
    if (jobs.length === 1 && only?.family?.waits === 'no') jobs.push(...this.#twinsOf(only))
    this.#inserts.push(jobs)
    await this.#add(jobs)
  }

  /** Sometimes: they differ in nothing but their ids, which an engine may make use of. */
  #twinsOf(job: NewJob): NewJob[] {
    if (this.#serial % 2 === 0) return []
    const twins = [1, 2].map(() => ({ ...job, id: this.#newId() }))
    if (this.#wakes.has(job.id)) for (const { id } of twins) this.#wakes.add(id)
    return twins
  }

  async #add(jobs: readonly NewJob[]): Promise<void> {
    await same(this.#stores.map((store) => store.insert(jobs)))
  }

  #newId(): string {
    const id = `j${String(++this.#serial).padStart(4, '0')}`
    this.#ids.push(id)
    return id
  }

  #idAt(back: number): string {
    return this.#ids.at(-1 - back) ?? 'nobody'
  }

  async #exchange(steps: readonly EndStep[], child: boolean, count: number): Promise<void> {
    const ending = this.#held.splice(0, steps.length)
    const added =
      child && ending[0] !== undefined ? [childOf([ending[0].id], { id: this.#newId() })] : undefined
    const claim = count === 0 ? undefined : claimRequest(count)
    const results = await Promise.all(
      this.#stores.map((store, s) => {
        const settlements = ending.map(({ id, tokens }, i) => ({
          id,
          token: tokens[s] as string,
          outcome: outcomeOf(steps[i] as EndStep, id, this.#dyingOf(steps[i] as EndStep, id)),
          inserts: i === 0 ? added : undefined,
        }))
        return store.exchange({ worker: 'worker', settlements, claim })
      }),
    )
    allAlike(results.map(({ settled }) => settled))
    for (const [i, { id }] of ending.entries()) this.#ended(id, steps[i] as EndStep)
    allAlike(
      results.map(({ claimed }) => claimed.map(({ id, attempt, family }) => ({ id, attempt, family }))),
    )
    const claimed = results.at(-1)?.claimed ?? []
    for (const [i, { id, family }] of claimed.entries()) {
      this.#held.push({ id, tokens: results.map((result) => result.claimed[i]?.token as string) })
      if (family !== undefined && family.waiting > 0 && !family.open) await this.#mayRun(id)
      this.#ran.add(id)
      this.#waitFor.delete(id)
    }
  }

  /** A job that has run before may have children meanwhile; one that has not was woken by a death. */
  async #mayRun(id: string): Promise<void> {
    if (this.#ran.has(id)) return
    const links = await linksOf(this.#stores[0] as Store, { parents: [id] })
    const hasDied = ({ child, end }: LinkRecord) => end === 'dead' || this.#died.has(child)
    const alarm = links.some((link) => hasDied(link) && this.#wakes.has(link.child))
    assert.ok(alarm, `${id} runs before its children have ended`)
  }

  async #extend(index: number, policy: FailurePolicy, place: number | undefined): Promise<void> {
    const run = this.#held[index]
    if (run === undefined) return
    const fan = place === undefined ? undefined : fanAt(run.id, place)
    const id = this.#newId()
    if (fan !== undefined) {
      this.#fanOf.set(id, fan)
      this.#lastOfStep.set(run.id, id)
    }
    await this.#report(run, { inserts: [childOf([run.id], { id }, { onFailure: policy, fan })] })
  }

  async #close(index: number, place: number): Promise<void> {
    const run = this.#held[index]
    if (run === undefined) return
    const fan = fanAt(run.id, place)
    const [record] = await (this.#stores[0] as Store).get([run.id])
    const { lost, open } = await this.#report(run, {
      closes: [{ fan, replays: record?.family?.replays ?? 0 }],
    })
    const links = await linksOf(this.#stores[0] as Store, { parents: [run.id] })
    const its = links.filter(({ child }) => this.#fanOf.get(child) === fan)
    const isOpen = !this.#closed.has(fan) && its.some(({ end }) => end === undefined)
    assert.deepEqual(open, lost.length === 0 && isOpen ? [fan] : [], `${fan} is not closed`)
    if (lost.length === 0 && !isOpen) this.#closed.set(fan, its)
  }

  #report(run: Held, wrote: Pick<StoreHeld, 'inserts' | 'closes'>): Promise<ExtendResult> {
    const held = { id: run.id, progress: undefined, logs: undefined, ...wrote }
    return same(
      this.#stores.map((store, s) =>
        store.extend({ worker: 'worker', lease, held: [{ ...held, token: run.tokens[s] as string }] }),
      ),
    )
  }

  #dyingOf(end: EndStep, id: string): string | undefined {
    return end === 'die of child' ? this.#lastOfStep.get(id) : undefined
  }

  #ended(id: string, end: EndStep): void {
    const child = this.#dyingOf(end, id)
    if (child !== undefined) this.#closed.delete(this.#fanOf.get(child) ?? '')
    if (end === 'wait for a fan') this.#waitFor.set(id, fanAt(id, 0))
  }

  #operate(id: string, command: Command): Promise<unknown> {
    return same(this.#stores.map((store) => store.operate({ ids: [id] }, command)))
  }

  /** Workers that have jobs go on living. */
  async #sweep(ms: number): Promise<void> {
    for (const harness of this.#harnesses) await harness.advance(ms)
    await Promise.all(this.#stores.map((store) => store.extend({ worker: 'worker', lease, held: [] })))
    await same(
      this.#stores.map(async (store) => {
        const { promoted, nextDue } = await sweep(store, { keep: { completed: 1e6, dead: 1e6 } })
        return { promoted, nextDue }
      }),
    )
  }

  async #crash(): Promise<void> {
    for (const harness of this.#harnesses) await harness.advance(lease + 1)
    await Promise.all(
      this.#stores.map(async (store) => {
        const { orphans } = await sweep(store, { keep: { completed: 1e6, dead: 1e6 } })
        const settlements = orphans.map((orphan) => ({
          id: orphan.id,
          token: orphan.token,
          outcome: crashed(orphan, lostWorker(orphan.name), forever),
          inserts: undefined,
        }))
        await store.exchange({ worker: 'worker', settlements, claim: undefined, rescue: true })
      }),
    )
    this.#held = []
  }

  async #look(): Promise<StoreView> {
    const views = await Promise.all(this.#stores.map((store) => look(store, this.#ids)))
    allAlike(views.map((view) => shown({ ...view, records: view.records.map(withoutFlow) })))
    const view = views.at(-1) as StoreView
    checkCounts(view)
    const records = view.records.filter((record) => record !== undefined)
    const parents = records.filter(({ family }) => family !== undefined && family.children > 0)
    const ids = parents.map(({ id }) => id)
    const linked = await Promise.all(this.#stores.map((store) => linksOf(store, { parents: ids }, 7)))
    allAlike(linked.map((links) => links.map((link) => ({ ...link, failure: plain(link.failure) }))))
    const links = linked.at(-1) ?? []
    for (const { child, end } of links) if (end === 'dead') this.#died.add(child)
    const live = new Set(records.filter(({ state }) => !isFinal(state)).map(({ id }) => id))
    for (const record of parents)
      checkParent(
        record,
        links.filter((link) => link.parent === record.id),
        live,
      )
    for (const { id, state, family } of records)
      assert.ok(state !== 'blocked' || (family?.waiting ?? 0) > 0, `${id} waits for nothing`)
    this.#checkFans(view, links)
    return view
  }

  #checkFans({ records }: StoreView, links: readonly LinkRecord[]): void {
    const now = new Map(links.map((link) => [link.child, link]))
    for (const [fan, before] of this.#closed)
      for (const { child, end } of before)
        if (now.has(child)) assert.equal(now.get(child)?.end, end, `${child} of ${fan}, which is closed`)
    for (const [id, fan] of this.#waitFor) {
      const job = records.find((record) => record?.id === id)
      const open = links.filter(({ parent, end }) => parent === id && end === undefined)
      const holdsUp = ({ child }: LinkRecord) => (this.#fanOf.get(child) ?? fan) === fan
      const isHeldUp = job?.family?.open === true || open.some(holdsUp)
      assert.ok(job?.state !== 'blocked' || isHeldUp, `${id} waits for ${fan}, which is over`)
    }
  }

  /** All that is open is sealed, and every job that gets its turn completes: then none is left. */
  async drain(): Promise<void> {
    await this.#crash()
    for (const id of this.#ids) await this.#operate(id, { do: 'seal' })
    const most = this.#ids.length * 3 + 20
    for (let i = 0; ; i++) {
      const view = await this.#look()
      const left = view.records.filter((record) => record !== undefined && !isFinal(record.state))
      if (left.length === 0) break
      assert.ok(i < most, `${left.map((job) => `${job?.id} (${job?.state})`).join(', ')} are left`)
      await this.#exchange(
        this.#held.map(() => 'complete'),
        false,
        8,
      )
      if (this.#held.length === 0) await this.#sweep(5_000)
    }
    const view = await this.#look()
    for (const store of this.#stores) await checkLists(store, view)
  }
}

/** Which flow a job is part of is told by those who add it, and these runs add to all kinds of jobs. */
function withoutFlow(record: JobRecord | undefined): JobRecord | undefined {
  return (record?.family && { ...record, family: { ...record.family, flow: '' } }) || record
}

function checkParent(
  { id, family, state }: JobRecord,
  links: readonly LinkRecord[],
  live: ReadonlySet<string>,
): void {
  const { children, waiting: count, failed, open } = family as Family
  const unended = links.filter(({ end }) => end === undefined)
  assert.equal(children, links.length, `children of ${id}`)
  assert.equal(count, unended.length + (open ? 1 : 0), `what ${id} (${state}) waits for`)
  const inTheWay = links.filter(({ end, onFailure }) => end !== undefined && standsInTheWay(end, onFailure))
  assert.ok(failed >= 0 && failed <= inTheWay.length, `${failed} children of ${id} failed`)
  for (const { child } of unended) assert.ok(live.has(child), `${id} waits for ${child}, which has ended`)
}

function fanAt(id: string, place: number): string {
  return `${id}/${place}`
}

function outcomeOf(end: EndStep, id: string, child: string | undefined): Outcome {
  switch (end) {
    case 'complete':
      return complete('"done"', forever)
    case 'vanish':
      return complete('"gone"', nothing)
    case 'die':
      return die(failureOf('greet', 'it is over'), forever)
    case 'die of child':
      return die(
        { ...failureOf('greet', 'its child died'), code: 'CHILD_FAILED', ...(child && { child }) },
        forever,
      )
    case 'retry':
      return retryIn(500)
    case 'cancel':
      return stop('no longer wanted', nothing)
    case 'release':
      return released()
    case 'wait':
      return waiting({ until: undefined, signals: [], children: true, fans: [] })
    case 'wait for a fan':
      return waiting({ until: undefined, signals: [], children: false, fans: [fanAt(id, 0)] })
  }
}

function commandOf(command: Extract<FamilyStep, { step: 'operate' }>['command']): Command {
  switch (command) {
    case 'cancel':
      return { do: 'cancel', reason: 'no longer wanted', retain: 1e9 }
    case 'cancel and forget':
      return { do: 'cancel', reason: 'no longer wanted', retain: 0 }
    case 'retry':
      return { do: 'retry', delay: 0, spacing: 0, change: {} }
    case 'retry afresh':
      return { do: 'retry', delay: 0, spacing: 0, change: { fresh: true } }
    case 'retry later':
      return { do: 'retry', delay: 500, spacing: 0, change: {} }
    case 'remove':
      return { do: 'remove' }
    case 'seal':
      return { do: 'seal' }
  }
}

/** One random run: each step done to a store, judged by the oracle, and told as an observation. */
import assert from 'node:assert/strict'
import { isFinal, type NewJob } from '../../core/job.js'
import { type LanePolicy, planPicks, spreadTurns } from '../../core/lanes.js'
import { limited, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type {
  ClaimRequest,
  Command,
  ExchangeResult,
  GateRecord,
  Settlement,
  Store,
} from '../../core/store.js'
import { type GateRef, ownerOf } from '../../core/traffic/settings.js'
import type { StoreHarness } from './harness.js'
import {
  complete,
  die,
  idsOf,
  lease,
  listAll,
  newJob,
  rescue,
  retryIn,
  sorted,
  stop,
  sweep,
  timeOf,
} from './helpers.js'
import { nameOf, type OracleJob, TrafficOracle } from './traffic-oracle.js'
import {
  type ClaimStep,
  groups,
  keys,
  limiter,
  names,
  type OutcomeStep,
  queues,
  trafficOf,
} from './traffic-parts.js'
import type { TrafficJobStep, TrafficStep } from './traffic-steps.js'

const weighted: LanePolicy = { strict: false, turns: spreadTurns([8, 4, 2, 1]), reserved: [0, 0, 0, 0] }

export class TrafficRun {
  readonly #harness: StoreHarness
  /** Handles on the same data, used one after the other. */
  readonly #handles: readonly Store[]
  readonly #oracle = new TrafficOracle()
  /** Jobs that each worker was given: its turns. */
  readonly #turns = new Map<string, number>()
  #uses = 0
  #hasBreakers = false
  #claims = 0
  #ids = 0

  constructor(harness: StoreHarness, handles: readonly Store[] = [harness.store]) {
    this.#harness = harness
    this.#handles = handles
  }

  get #store(): Store {
    return this.#handles[this.#uses % this.#handles.length] as Store
  }

  /** Looks are taken with one handle alone, because a look makes a handle forget what is old. */
  get #first(): Store {
    return this.#handles[0] as Store
  }

  /** A worker lives in one process. */
  #storeOf(worker: string): Store {
    return this.#handles[worker.charCodeAt(0) % this.#handles.length] as Store
  }

  async begin(): Promise<void> {
    this.#oracle.now = await timeOf(this.#store)
  }

  /** Returns what the store showed, for comparison with another. */
  async take(step: TrafficStep): Promise<unknown> {
    const seen = await this.#do(step)
    this.#uses++
    await this.#seePhases()
    return seen
  }

  #do(step: TrafficStep): Promise<unknown> {
    switch (step.step) {
      case 'insert':
        return this.#insert(step.jobs.flatMap((job) => this.#newJobs(job)))
      case 'exchange':
        return this.#exchange(step)
      case 'crash':
        return this.#crash(step.worker)
      case 'sweep':
        return this.#sweepAndTell()
      case 'advance':
        return this.#advance(step.ms)
      case 'configure':
        this.#hasBreakers ||= 'breaker' in step.change
        this.#oracle.configure(step.gate, step.change, step.declared)
        return this.#store.configure({ gate: step.gate, change: step.change, declared: step.declared })
      case 'pause':
        this.#oracle.pausedQueues[step.paused ? 'add' : 'delete'](step.queue)
        return this.#store.configure({ queue: step.queue, paused: step.paused })
      case 'breaker':
        this.#hasBreakers = true
        this.#oracle.openedByHand[step.to === 'open' ? 'add' : 'delete'](step.job)
        return this.#store.configure({ job: step.job, breaker: step.to })
      case 'acquire':
        return this.#acquire(step.permits)
      case 'operate':
        return this.#operate(step)
    }
  }

  #newJobs({ count, ...step }: TrafficJobStep): NewJob[] {
    const { queue, name, lane, delay } = step
    const traffic = trafficOf(step)
    return Array.from({ length: count }, () => {
      const id = `j${++this.#ids}`
      return newJob({ id, queue, name, lane, delay, traffic, maxCrashes: 100 })
    })
  }

  async #insert(jobs: readonly NewJob[]): Promise<unknown> {
    for (const job of jobs) this.#add(job)
    return this.#store.insert(jobs)
  }

  #add(job: NewJob): void {
    const delayed = job.delay > 0
    this.#oracle.jobs.set(job.id, {
      job,
      state: delayed ? 'scheduled' : 'pending',
      dueAt: delayed ? this.#oracle.now + job.delay : undefined,
      run: undefined,
    })
  }

  async #exchange(step: Extract<TrafficStep, { step: 'exchange' }>): Promise<unknown> {
    const oracle = this.#oracle
    const ended = oracle.runsOf(step.worker).slice(0, step.outcomes.length)
    const inserts = step.inserts === undefined ? undefined : this.#newJobs(step.inserts)
    const settlements = ended.map((entry, i): Settlement => {
      const outcome = outcomeOf(step.outcomes[i] as OutcomeStep)
      return { id: entry.job.id, token: entry.run.token, outcome, inserts: i === 0 ? inserts : undefined }
    })
    const claim = step.claim === undefined ? undefined : this.#claimRequest(step.worker, step.claim)
    const result = await this.#storeOf(step.worker).exchange({ worker: step.worker, settlements, claim })
    for (const [i, entry] of ended.entries()) {
      assert.notEqual(result.settled[i], 'lost', `${entry.job.id} is held by its worker`)
      this.#end(entry, settlements[i]?.outcome as Outcome, result.settled[i] === 'cancelled')
    }
    if (ended.length > 0) {
      for (const job of inserts ?? []) this.#add(job)
      // What ended may have opened or closed a breaker before the claim.
      await this.#seePhases()
    }
    if (step.claim !== undefined) await this.#claimed(step.worker, step.claim, claim as ClaimRequest, result)
    return { ...result, claimed: result.claimed.map(({ id, attempt, suspect }) => [id, attempt, suspect]) }
  }

  #claimRequest(worker: string, { count, queues: asked, strict }: ClaimStep): ClaimRequest {
    const room = { shared: count, own: [0, 0, 0, 0] }
    const turn = this.#turns.get(worker) ?? 0
    const picks = planPicks(room, { ...weighted, strict }, asked, { turn, claim: ++this.#claims })
    return { token: `claim-${this.#claims}`, lease, room, picks, turn }
  }

  async #claimed(
    worker: string,
    { count, queues: asked, strict }: ClaimStep,
    { picks }: ClaimRequest,
    { claimed, opens }: ExchangeResult,
  ): Promise<void> {
    const oracle = this.#oracle
    assert.ok(claimed.length <= count, 'no more than the room')
    for (const { id, token, attempt, queue, startedAt } of claimed) {
      assert.ok(asked.includes(queue), `${id} is of an asked queue`)
      assert.equal(startedAt, oracle.now, `${id} starts now`)
      oracle.start(oracle.jobs.get(id) as OracleJob, { worker, token, attempt })
    }
    this.#turns.set(worker, (this.#turns.get(worker) ?? 0) + claimed.length)
    await this.#seePhases()
    // Not done yet, it says, and is asked again at once.
    if (opens === 0) return
    if (claimed.length < count) oracle.checkNoneHeldBack(asked)
    else oracle.checkShares(picks, strict, claimed)
  }

  #end(entry: OracleJob, outcome: Outcome, cancelled: boolean): void {
    const { now, jobs } = this.#oracle
    if (outcome.hold > 0) this.#oracle.hold(entry, now + outcome.hold)
    entry.run = undefined
    entry.state = cancelled ? 'cancelled' : outcome.to
    const delayed = entry.state === 'scheduled' || entry.state === 'retrying'
    entry.dueAt = delayed ? now + outcome.delay : undefined
    if (isFinal(entry.state) && outcome.retain === 0) jobs.delete(entry.job.id)
  }

  async #crash(worker: string): Promise<unknown> {
    await this.#advance(lease)
    const { orphans } = await this.#sweep()
    const lost = orphans.filter((orphan) => orphan.worker === worker)
    const runs = this.#oracle.runsOf(worker)
    assert.deepEqual(
      sorted(idsOf(lost)),
      sorted(runs.map(({ job }) => job.id)),
      'orphans are all that it held',
    )
    for (const orphan of lost) {
      assert.equal(await rescue(this.#store, orphan), 'applied')
      const entry = this.#oracle.jobs.get(orphan.id) as OracleJob
      entry.state = orphan.cancelReason === undefined ? 'pending' : 'cancelled'
      entry.run = undefined
    }
    return sorted(idsOf(lost))
  }

  async #sweep() {
    const report = await sweep(this.#store)
    for (const entry of this.#oracle.jobs.values()) {
      if (entry.dueAt === undefined || entry.dueAt > this.#oracle.now) continue
      entry.state = 'pending'
      entry.dueAt = undefined
    }
    const { promoted, nextDue, more } = report
    assert.equal(more, false)
    return { promoted, nextDue, orphans: report.orphans }
  }

  /** Not of orphans: whether a claim that finds nothing renews a lease is left open. */
  async #sweepAndTell(): Promise<unknown> {
    const { promoted, nextDue } = await this.#sweep()
    return { promoted, nextDue }
  }

  async #advance(ms: number): Promise<void> {
    await this.#harness.advance(ms)
    this.#oracle.now += ms
  }

  async #acquire(permits: number): Promise<unknown> {
    const result = await this.#store.acquire({ limiter, permits })
    if (result.granted) this.#oracle.acquire(limiter, permits)
    else assert.ok(result.retryIn > 0, 'who is refused is told when to ask again')
    return result
  }

  async #operate({ first, count, command }: Extract<TrafficStep, { step: 'operate' }>): Promise<unknown> {
    const { jobs, now } = this.#oracle
    const ids = [...jobs.keys()].slice(first, first + count)
    const { affected, asked, refused } = await this.#store.operate({ ids }, commands[command])
    for (const id of affected) {
      const entry = jobs.get(id) as OracleJob
      if (command === 'remove') jobs.delete(id)
      else entry.state = command === 'cancel' ? 'cancelled' : 'pending'
      if (command === 'move') jobs.set(id, { ...entry, job: { ...entry.job, queue: 'other' } })
      entry.dueAt = undefined
    }
    return { affected, asked, refused, now }
  }

  async #seePhases(): Promise<void> {
    if (!this.#hasBreakers) return
    const { gates } = await this.#first.gates({ of: 'job', limit: 10 })
    for (const { ref, breaker } of gates) this.#oracle.seePhase(ref.name, breaker)
  }

  /** All counts of all gates are what the oracle counts; returns them for comparison with another store. */
  async checkGates(): Promise<unknown> {
    const all: GateRecord[] = []
    for (const of of ['queue', 'job', 'group', 'key'] as const)
      all.push(...(await this.#first.gates({ of, limit: 100 })).gates)
    for (const gate of all) {
      const name = nameOf(gate.ref)
      const owned = ownerOf(gate.ref) !== ''
      const expected = [this.#oracle.running(name), owned ? this.#oracle.pending(name) : 0]
      assert.deepEqual([gate.running, gate.pending], expected, `running and pending of ${name}`)
    }
    const listed = new Set(all.map(({ ref }) => nameOf(ref)))
    for (const name of this.#oracle.namesInUse()) assert.ok(listed.has(name), `${name} is listed`)
    return all
      .map((gate) => ({
        name: nameOf(gate.ref),
        room: gate.room,
        opensAt: gate.opensAt,
        breaker: gate.breaker,
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Every job is listed once, where the oracle has it. */
  async checkLists(): Promise<void> {
    for (const state of ['pending', 'running', 'scheduled', 'retrying'] as const) {
      const listed = idsOf(await listAll(this.#store, { state }, 7))
      const expected = this.#oracle.inState(state).map(({ job }) => job.id)
      assert.deepEqual(sorted(listed), sorted(expected), `${state} jobs`)
    }
  }

  /** Everything is opened, time goes on, and every job gets done; then nothing is left of groups and keys. */
  async drain(): Promise<void> {
    await this.#openAll()
    const most = this.#oracle.jobs.size * 4 + 50
    for (let i = 0; this.#live() > 0; i++) {
      assert.ok(i < most, `${this.#live()} jobs are left after ${i} claims: ${this.#leftovers()}`)
      await this.#drainOnce()
    }
    await this.#advance(2_000)
    await this.#sweep()
    for (const of of ['group', 'key'] as const) {
      const { gates } = await this.#store.gates({ of, limit: 100 })
      const idle = gates.filter((gate) => Object.keys({ ...gate.declared, ...gate.chosen }).length === 0)
      assert.deepEqual(idle, [], `no ${of} is left behind`)
    }
    for (const of of ['queue', 'job', 'limiter'] as const)
      for (const gate of (await this.#store.gates({ of, limit: 100 })).gates)
        assert.equal(gate.running, 0, `nothing runs by ${nameOf(gate.ref)}`)
  }

  async #drainOnce(): Promise<void> {
    const outcomes = this.#oracle.runsOf('v').map((): OutcomeStep => ({ to: 'complete' }))
    const claim = { count: 8, queues, strict: true }
    const step = { step: 'exchange', worker: 'v', outcomes, inserts: undefined, claim } as const
    const { claimed, opens } = (await this.take(step)) as ExchangeResult
    if (claimed.length > 0 || opens === 0 || outcomes.length > 0) return
    const { nextDue } = await this.#sweep()
    const wait = Math.min(opens ?? Number.POSITIVE_INFINITY, nextDue ?? Number.POSITIVE_INFINITY)
    const ready = this.#oracle.inState('pending').length > 0
    assert.ok(wait < Number.POSITIVE_INFINITY || ready, `nobody says when to come back: ${this.#leftovers()}`)
    if (wait < Number.POSITIVE_INFINITY) await this.#advance(wait)
  }

  async #openAll(): Promise<void> {
    for (const worker of ['v', 'w', 'x']) await this.#crash(worker)
    const refs: GateRef[] = [
      ...queues.map((name): GateRef => ({ of: 'queue', name })),
      ...names.map((name): GateRef => ({ of: 'job', name })),
      ...queues.flatMap((queue) => groups.map((name): GateRef => ({ of: 'group', queue, name }))),
      ...names.flatMap((job) => keys.map((name): GateRef => ({ of: 'key', job, name }))),
    ]
    for (const gate of refs) {
      const settings = this.#oracle.settings(nameOf(gate))
      for (const declared of [true, false]) {
        if (settings.paused !== undefined)
          await this.#do({ step: 'configure', gate, change: { paused: null }, declared })
        if (settings.limit?.concurrency === 0)
          await this.#do({ step: 'configure', gate, change: { limit: null }, declared })
        if (settings.limiter !== undefined)
          await this.#do({ step: 'configure', gate, change: { limiter: null }, declared })
        if (settings.each?.concurrency === 0)
          await this.#do({ step: 'configure', gate, change: { each: null }, declared })
      }
    }
    for (const job of names) await this.#do({ step: 'breaker', job, to: 'closed' })
    for (const queue of queues) await this.#do({ step: 'pause', queue, paused: false })
    await this.#seePhases()
  }

  #live(): number {
    return [...this.#oracle.jobs.values()].filter(({ state }) => !isFinal(state)).length
  }

  #leftovers(): string {
    const left = [...this.#oracle.jobs.values()].filter(({ state }) => !isFinal(state))
    return left
      .slice(0, 5)
      .map((entry) => `${entry.job.id} ${entry.state} of ${this.#oracle.gatesOf(entry).join(' ')}`)
      .join('; ')
  }
}

const commands: Record<Extract<TrafficStep, { step: 'operate' }>['command'], Command> = {
  cancel: { do: 'cancel', reason: 'not wanted', retain: 1_000_000_000 },
  remove: { do: 'remove' },
  promote: { do: 'promote' },
  retry: { do: 'retry', delay: 0, spacing: 0, change: {} },
  move: { do: 'retry', delay: 0, spacing: 0, change: { queue: 'other' } },
}

const forever = { completed: 1_000_000_000, dead: 1_000_000_000 }

export function outcomeOf(step: OutcomeStep): Outcome {
  switch (step.to) {
    case 'complete':
      return complete(undefined, forever)
    case 'vanish':
      return complete(undefined, { completed: 0, dead: 0 })
    case 'die':
      return die(undefined, forever)
    case 'stop':
      return stop(undefined, forever)
    case 'release':
      return released()
    case 'excused':
      return { ...die(undefined, forever), excused: true }
    case 'retry':
      return retryIn(step.delay)
    case 'snooze':
      return snoozed(step.delay)
    case 'hold':
      return limited(step.delay)
  }
}

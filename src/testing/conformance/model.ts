/**
 * The model test: random runs of every verb, each step done to the store and to a plain model of it, and all
 * that can be observed compared after each. A failure is shrunk and says how to replay it.
 */
import assert from 'node:assert/strict'
import { isFinal, type JobRecord, jobStates, type NewJob } from '../../core/job.js'
import { takeByPicks } from '../../core/lanes.js'
import { crashed, released } from '../../core/lifecycle.js'
import type {
  ClaimRequest,
  Command,
  ExchangeRequest,
  JobFilter,
  OperateReport,
  OrphanedJob,
  Store,
} from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import { complete, idsOf, listAll, lostWorker, newJob, plain, sorted } from './helpers.js'
import { forge, idOf, queueOf, Requests, workerOf } from './model-requests.js'
import { type Step, stepsOf } from './model-steps.js'
import { kindKey, nonZero, World, type WorldJob, type WorldLease } from './model-world.js'
import { checkProperty, type PropertyOptions } from './property.js'
import { viewOfRecord } from './record-view.js'

export interface ModelOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
}

/** Every step leaves the store as it leaves the model. */
export function checkAgainstModel({ make, ...options }: ModelOptions): Promise<void> {
  return checkProperty('the store and the model part', options, stepsOf, async (steps, at) => {
    const harness = await make()
    try {
      const run = await startRun(harness)
      for (const step of steps) {
        await at(step.step, async () => {
          await run.take(step)
          await run.compare()
        })
      }
      await run.compareAll()
    } finally {
      await harness.close()
    }
  })
}

/** The world starts with one job, because a job's insert is what tells the store's time. */
async function startRun(harness: StoreHarness): Promise<Run> {
  const first = newJob({ id: 'first', queue: 'clock', name: 'clock' })
  await harness.store.insert([first])
  const [record] = await harness.store.get(['first'])
  const world = new World((record as JobRecord).createdAt)
  world.insert([first])
  return new Run(harness, world)
}

interface Claim {
  readonly worker: string
  readonly request: ClaimRequest
}

class Run {
  readonly #store: Store
  readonly #harness: StoreHarness
  readonly #world: World
  readonly #requests: Requests
  readonly #claims: Claim[] = []
  #orphans: readonly OrphanedJob[] = []

  constructor(harness: StoreHarness, world: World) {
    this.#harness = harness
    this.#store = harness.store
    this.#world = world
    this.#requests = new Requests(world)
  }

  take(step: Step): Promise<void> {
    switch (step.step) {
      case 'insert':
        return this.#insert(step.jobs.map((job) => this.#requests.job(job)))
      case 'exchange':
        return this.#exchange(step)
      case 'claim again':
        return this.#claimAgain(step.claim)
      case 'settle all':
        return this.#settleAll(step)
      case 'extend':
        return this.#extend(step)
      case 'sweep':
        return this.#sweep(step)
      case 'rescue':
        return this.#rescue(step.retain)
      case 'crash':
        return this.#crash(step.retain)
      case 'operate on ids':
        return this.#operateOnIds(step.ids.map(idOf), this.#requests.command(step.command))
      case 'operate':
        return this.#operate(
          this.#requests.filter(step.filter),
          step.limit,
          this.#requests.command(step.command),
        )
      case 'configure':
        return this.#configure(queueOf(step.queue), step.paused)
      case 'advance':
        return this.#advance(step.ms)
    }
  }

  async #insert(jobs: readonly NewJob[]): Promise<void> {
    const results = await this.#store.insert(jobs)
    assert.deepEqual(results, this.#world.insert(jobs), 'results of insert')
  }

  async #exchange(step: Extract<Step, { step: 'exchange' }>): Promise<void> {
    const settlements = step.settlements.map((settlement) => this.#requests.settlement(settlement))
    // Mostly the worker that holds the first of them, so that most settlements are right.
    const holder = this.#requests.leaseAt(step.settlements[0]?.lease ?? 0)?.lease.worker
    const impostor = step.settlements[0]?.impostor === true
    const worker = holder === undefined || impostor ? workerOf(step.worker) : holder
    const claim =
      step.rescue || step.claim === undefined ? undefined : this.#requests.claimRequest(step.claim)
    await this.#send({ worker, settlements, claim, rescue: step.rescue })
  }

  async #send(request: ExchangeRequest): Promise<void> {
    const { worker, settlements, claim, rescue } = request
    const { settled, claimed } = await this.#store.exchange(request)
    const expected = settlements.map((settlement) => this.#world.settle(worker, settlement, rescue === true))
    assert.deepEqual(settled, expected, 'results of settlements')
    if (claim === undefined) return assert.deepEqual(claimed, [], 'nothing claimed')
    this.#claims.unshift({ worker, request: claim })
    this.#checkCounts(claim, claimed)
    for (const { id } of claimed)
      assert.equal(this.#world.jobs.get(id)?.state, 'pending', `claimed ${id} was pending`)
    assert.equal(new Set(idsOf(claimed)).size, claimed.length, 'claimed each once')
    this.#checkOrder(claimed)
    for (const job of claimed) {
      const lease: WorldLease = { worker, token: job.token, claim: claim.token, startedAt: this.#world.now }
      const used = this.#requests.leases.some((old) => old.id === job.id && old.lease.token === job.token)
      assert.ok(!used, `the token of ${job.id} is new`)
      this.#requests.leases.unshift({ id: job.id, lease })
      this.#world.claim(job.id, lease)
      const { attempt, crashes, input, queue, lane, name, createdAt } = this.#world.jobs.get(
        job.id,
      ) as WorldJob
      const known = { attempt, crashes, input, queue, lane, name, createdAt, startedAt: lease.startedAt }
      assert.deepEqual(job, { ...job, ...known }, 'claimed job')
    }
    await this.#renew(worker, claim.lease, claimed.length > 0)
  }

  /** Whether a claim that takes nothing new renews the lease is left open, so then an extension does. */
  async #renew(worker: string, lease: number, renewed: boolean): Promise<void> {
    if (!renewed) await this.#store.extend({ worker, lease, held: [] })
    this.#world.leases.set(worker, this.#world.now + lease)
  }

  /** As many of each queue and lane as the picks prescribe. */
  #checkCounts({ room, picks }: ClaimRequest, claimed: readonly { queue: string; lane: number }[]): void {
    const expected = new Map<string, number>()
    takeByPicks(room, picks, (queue, lane, count) => {
      const key = `${queue} ${lane}`
      const taken = expected.get(key) ?? 0
      const there = this.#world.paused.has(queue) ? 0 : this.#world.inLine(queue, lane).length - taken
      const found = Math.min(count, there)
      if (found > 0) expected.set(key, taken + found)
      return found
    })
    const seen = new Map<string, number>()
    for (const { queue, lane } of claimed)
      seen.set(`${queue} ${lane}`, (seen.get(`${queue} ${lane}`) ?? 0) + 1)
    assert.deepEqual([...seen].sort(), [...expected].sort(), 'claimed by queue and lane')
  }

  /** Jobs that were never anywhere but in line leave it in the order in which they came. */
  #checkOrder(claimed: readonly { id: string; queue: string; lane: number }[]): void {
    for (const line of new Set(claimed.map(({ queue, lane }) => `${queue} ${lane}`))) {
      const [queue, lane] = line.split(' ') as [string, string]
      const waiting = this.#world.inLine(queue, Number(lane)).filter((job) => job.plain)
      const taken = claimed.filter(({ id }) => waiting.some((job) => job.id === id))
      waiting.sort((a, b) => a.place - b.place)
      assert.deepEqual(idsOf(taken), idsOf(waiting.slice(0, taken.length)), `first in, first out in ${line}`)
    }
  }

  async #claimAgain(index: number): Promise<void> {
    const claim = this.#claims[index]
    if (claim === undefined) return
    const { worker, request } = claim
    const held = this.#world.all(({ lease }) => lease?.worker === worker && lease.claim === request.token)
    // With nothing left under it, it would be a new claim with an old token, which no worker sends.
    if (held.length === 0) return
    const { claimed } = await this.#store.exchange({ worker, settlements: [], claim: request })
    await this.#renew(worker, request.lease, false)
    const view = (id: string, token: string | undefined, attempt: number) => `${id} ${token} ${attempt}`
    assert.deepEqual(
      sorted(claimed.map((job) => view(job.id, job.token, job.attempt))),
      sorted(held.map((job) => view(job.id, job.lease?.token, job.attempt))),
      'a repeated claim returns what it holds',
    )
  }

  /** Of the leases that the claim ever gave, so that some may be settled or in other hands by now. */
  async #settleAll(step: Extract<Step, { step: 'settle all' }>): Promise<void> {
    const claim = this.#claims[step.claim]
    if (claim === undefined) return
    const outcome = step.release ? released() : complete(step.result, { completed: step.retain, dead: 0 })
    const settlements = this.#requests.leases
      .filter(({ lease }) => lease.claim === claim.request.token)
      .reverse()
      .map(({ id, lease }) => {
        const token = step.forged ? forge(lease.token) : lease.token
        return { id, token, outcome, inserts: undefined }
      })
    const worker = step.impostor ? this.#otherThan(claim.worker) : claim.worker
    await this.#send({ worker, settlements, claim: undefined })
  }

  /** Preferably one that the store knows. */
  #otherThan(worker: string): string {
    return [...this.#world.leases.keys()].find((other) => other !== worker) ?? 'nobody'
  }

  async #extend(step: Extract<Step, { step: 'extend' }>): Promise<void> {
    const chosen = step.held.flatMap((wanted) => {
      const found = this.#requests.leaseAt(wanted.lease)
      return found === undefined ? [] : { ...wanted, id: found.id, lease: found.lease }
    })
    const worker = chosen[0]?.lease.worker ?? workerOf(step.worker)
    const held = chosen.map(({ id, lease, forged, progress, logs }) => ({
      id,
      token: forged ? forge(lease.token) : lease.token,
      progress,
      logs: logs === 0 ? undefined : this.#requests.lines(logs),
    }))
    const { lost, cancels } = await this.#store.extend({ worker, lease: step.lease, held })
    this.#world.leases.set(worker, this.#world.now + step.lease)
    const mine = held.flatMap((job) => this.#world.held(worker, job.id, job.token) ?? [])
    const others = held.filter((job) => this.#world.held(worker, job.id, job.token) === undefined)
    assert.deepEqual(sorted(lost), sorted(idsOf(others)), 'lost by extend')
    const asked = mine.filter((job) => job.cancelReason !== undefined)
    assert.deepEqual(sorted(idsOf(cancels)), sorted(idsOf(asked)), 'cancels told by extend')
    for (const { id, reason } of cancels) assert.equal(reason, this.#world.jobs.get(id)?.cancelReason)
    for (const { id, token, progress, logs } of held) {
      const job = this.#world.held(worker, id, token)
      if (job === undefined) continue
      job.progress = progress ?? job.progress
      job.logs = [...job.logs, ...(logs ?? [])].slice(-100)
    }
  }

  async #sweep({ limit, completed, dead }: Extract<Step, { step: 'sweep' }>): Promise<void> {
    const world = this.#world
    const keep = { completed, dead }
    const report = await this.#store.sweep({ limit, keep })
    const before = world.all(() => true)
    const after = new Map(
      (await this.#store.get(idsOf(before))).map((record, i) => [before[i] as WorldJob, record]),
    )

    const promoted = before.filter((job) => job.dueAt !== undefined && after.get(job)?.state === 'pending')
    assert.equal(report.promoted, promoted.length, 'promoted, as reported')
    for (const job of promoted) {
      assert.ok((job.dueAt as number) <= world.now, `${job.id} became ready when it was due`)
      world.makeReady(job)
    }

    const pruned = before.filter((job) => isFinal(job.state) && after.get(job) === undefined)
    assert.equal(report.pruned, pruned.length, 'pruned, as reported')
    for (const job of pruned) {
      world.jobs.delete(job.id)
      world.add(job, 'pruned')
    }
    for (const state of ['completed', 'cancelled', 'dead'] as const) {
      const gone = pruned.filter((job) => job.state === state)
      this.#checkPruned(
        gone,
        world.all((job) => job.state === state),
        keep[state === 'dead' ? 'dead' : 'completed'],
      )
    }

    assert.ok(
      promoted.length <= limit && pruned.length <= limit && report.orphans.length <= limit,
      'bounded by the limit',
    )
    const next = world.waiting().map((job) => Math.max(0, (job.dueAt as number) - world.now))
    assert.equal(report.nextDue, next.length === 0 ? undefined : Math.min(...next), 'nextDue')
    for (const orphan of report.orphans) this.#checkOrphan(orphan)
    assert.equal(new Set(idsOf(report.orphans)).size, report.orphans.length, 'each orphan once')
    if (!report.more) this.#checkNothingLeft(keep, report.orphans)
    this.#orphans = report.orphans
  }

  /** Jobs go by age; before their time only beyond the count, and those closest to their expiry first. */
  #checkPruned(gone: readonly WorldJob[], kept: readonly WorldJob[], most: number): void {
    const early = gone.filter((job) => (job.expiresAt as number) > this.#world.now)
    if (early.length === 0) return
    assert.ok(kept.length >= most, 'no more than the excess is pruned')
    const latest = Math.max(...early.map((job) => job.expiresAt as number))
    assert.ok(
      kept.every((job) => (job.expiresAt as number) >= latest),
      'those closest to their expiry go first',
    )
  }

  #checkOrphan(orphan: OrphanedJob): void {
    const job = this.#world.orphans().find(({ id }) => id === orphan.id)
    assert.ok(job?.lease, `${orphan.id} is an orphan`)
    const { id, name, queue, lane, attempt, crashes, maxCrashes, cancelReason } = job
    const { token, worker } = job.lease
    assert.deepEqual(
      orphan,
      { id, token, name, queue, lane, attempt, worker, crashes, maxCrashes, cancelReason },
      'orphan',
    )
  }

  /** A sweep that does not say `more` has left nothing to do. */
  #checkNothingLeft(keep: { completed: number; dead: number }, named: readonly OrphanedJob[]): void {
    const { now } = this.#world
    assert.deepEqual(
      idsOf(this.#world.waiting().filter((job) => (job.dueAt as number) <= now)),
      [],
      'due and left',
    )
    assert.deepEqual(
      idsOf(this.#world.all((job) => (job.expiresAt ?? now + 1) <= now)),
      [],
      'expired and left',
    )
    for (const state of ['completed', 'cancelled', 'dead'] as const) {
      const most = keep[state === 'dead' ? 'dead' : 'completed']
      assert.ok(
        this.#world.all((job) => job.state === state).length <= most,
        `no more ${state} jobs than to be kept`,
      )
    }
    assert.deepEqual(sorted(idsOf(named)), sorted(idsOf(this.#world.orphans())), 'all orphans named')
  }

  /** For the orphans of the last sweep, some of which may have been settled or revived since. */
  async #rescue(retain: number): Promise<void> {
    for (const worker of new Set(this.#orphans.map((orphan) => orphan.worker))) {
      const mine = this.#orphans.filter((orphan) => orphan.worker === worker)
      const keep = { completed: retain, dead: retain }
      const settlements = mine.map((orphan) => {
        const outcome = crashed(orphan, lostWorker(orphan.name), keep)
        return { id: orphan.id, token: orphan.token, outcome, inserts: undefined }
      })
      await this.#send({ worker, settlements, claim: undefined, rescue: true })
    }
  }

  async #crash(retain: number): Promise<void> {
    await this.#advance(50)
    await this.#sweep({ step: 'sweep', limit: 100, completed: 100, dead: 100 })
    await this.#rescue(retain)
  }

  async #operateOnIds(ids: readonly string[], command: Command): Promise<void> {
    const expected = { affected: [], asked: [], missing: [], refused: [] } as Record<string, string[]>
    for (const id of new Set(ids)) expected[this.#world.judge(id, command)]?.push(id)
    const report = await this.#store.operate({ ids }, command)
    assert.deepEqual({ ...report }, { ...expected, cursor: undefined }, 'report of operate')
    this.#apply(report, command)
  }

  async #operate(filter: JobFilter, limit: number, command: Command): Promise<void> {
    const matching = this.#world.matching(filter)
    const reached: string[] = []
    let cursor: string | undefined
    do {
      const report = await this.#store.operate({ filter, limit, cursor }, command)
      assert.deepEqual(report.missing, [])
      for (const verdict of ['affected', 'asked', 'refused'] as const) {
        for (const id of report[verdict])
          assert.equal(this.#world.judge(id, command), verdict, `${command.do} of ${id}`)
        reached.push(...report[verdict])
      }
      assert.ok(reached.length <= matching.length, 'no more jobs than match')
      this.#apply(report, command)
      cursor = report.cursor
    } while (cursor !== undefined)
    assert.deepEqual(sorted(reached), sorted(idsOf(matching)), 'jobs that match')
  }

  #apply(report: OperateReport, command: Command): void {
    report.affected.forEach((id, i) => {
      this.#world.operate(id, command, i)
    })
    for (const id of report.asked) this.#world.operate(id, command, 0)
  }

  async #configure(queue: string, paused: boolean): Promise<void> {
    await this.#store.configure({ queue, paused })
    if (paused) this.#world.paused.add(queue)
    else this.#world.paused.delete(queue)
  }

  async #advance(ms: number): Promise<void> {
    await this.#harness.advance(ms)
    this.#world.now += ms
  }

  /** All that can be read in a few calls. */
  async compare(): Promise<void> {
    const { kinds, paused } = await this.#store.counts()
    assert.deepEqual(sorted(paused), sorted([...this.#world.paused]), 'paused queues')
    const states = this.#world.states()
    for (const kind of kinds) {
      const key = kindKey(kind)
      assert.deepEqual(nonZero(kind.states), nonZero(states.get(key) ?? {}), `counts of ${key}`)
      assert.deepEqual(nonZero(kind.totals), nonZero(this.#world.totals.get(key) ?? {}), `totals of ${key}`)
      states.delete(key)
    }
    assert.deepEqual([...states.keys()], [], 'kinds that are not counted')

    const ids = [...this.#requests.ids]
    const records = await this.#store.get(ids)
    for (const [i, id] of ids.entries()) compareJob(id, records[i], this.#world.jobs.get(id))

    const groups = new Map<string, number>()
    for (const { failure } of this.#world.matching({ state: 'dead' })) {
      const cause = failure?.cause ?? ''
      groups.set(cause, (groups.get(cause) ?? 0) + 1)
    }
    const causes = (await this.#store.causes()).map(({ cause, count }) => [cause, count] as const)
    assert.deepEqual([...causes].sort(), [...groups].sort(), 'causes')
  }

  /** At the end of a run: what takes more calls to read. */
  async compareAll(): Promise<void> {
    for (const state of jobStates) {
      const listed = await listAll(this.#store, { state }, 4)
      assert.deepEqual(
        sorted(idsOf(listed)),
        sorted(idsOf(this.#world.matching({ state }))),
        `list of ${state} jobs`,
      )
    }
    for (const id of this.#requests.ids) {
      const trail = await this.#store.trail(id)
      const job = this.#world.jobs.get(id)
      assert.deepEqual(trail?.logs, job?.logs, `logs of ${id}`)
      const failed = trail?.attempts.filter(({ failure }) => failure !== undefined)
      const seen = failed?.map(({ worker, startedAt, endedAt, to, failure }) => ({
        ...{ worker, startedAt, endedAt, to },
        cause: failure?.cause,
      }))
      assert.deepEqual(seen, job?.history, `attempts of ${id}`)
    }
  }
}

function compareJob(id: string, record: JobRecord | undefined, job: WorldJob | undefined): void {
  if (record === undefined || job === undefined) assert.equal(record?.state, job?.state, `state of ${id}`)
  else assert.deepEqual(viewOfRecord(record), viewOfJob(job), id)
}

function viewOfJob(job: WorldJob) {
  const { place, plain: neverMoved, lease, history, logs, failure, ...rest } = job
  return {
    ...rest,
    startedAt: lease?.startedAt,
    worker: lease?.worker,
    failure: job.state === 'completed' || job.state === 'cancelled' ? undefined : plain(failure),
  }
}

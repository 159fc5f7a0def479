/**
 * The ground of one run: a folder with a store and the journals, a client that enqueues, and the processes
 * under attack. A fault gets an arena, does its harm, and `judge` heals, drains and asks the checker.
 */
import { type EnqueueOptions, type JobDefinition, type JobState, Millrace } from 'millrace'
import type { RedisCluster } from '../servers/redis-cluster.js'
import { check, type FinalJob, type Loss, type Period } from './checker.js'
import type { ChildConfig } from './child.js'
import type { JobRecord } from './contract.js'
import { type EngineName, integrity, openStore } from './engine.js'
import type { Member } from './fleet.js'
import { type Signature, type Work, work } from './jobs.js'
import { type HistoryEvent, Journal, notEnqueued, readJournals } from './journal.js'
import type { ChaosServer, Ground, Place } from './place.js'
import type { ProducerConfig } from './producer-process.js'
import { RecordingStore } from './recording-store.js'
import { medianOf, percentileOf, type Row } from './row.js'
import { type AttackOptions, repeat, Scene, sleep } from './scene.js'
import { settings } from './settings.js'
import type { WorkerConfig } from './worker-process.js'

export interface ArenaOptions extends AttackOptions<EngineName, Ground> {
  /** Where the store lies, when not in `folder`. */
  readonly storeFolder?: string
}

export interface Judgement {
  readonly injected: number | ((findings: Findings) => number)
  readonly note?: string
  readonly allowedErrors?: readonly string[]
  /** The fault makes workers write without a lease; it failed if none tried. */
  readonly expectStale?: boolean
  /** The fault loses answers, so that the store asks again. */
  readonly repeats?: boolean
  /** The fault makes the store forget what was written in these periods: what is lost is counted, not accused. */
  readonly forgotten?: readonly Period[]
  /** As the checker has it. */
  readonly several?: boolean
  /** How long processes may have something left to wait for when they are told to end. */
  readonly graceMs?: number
  /** Looks at what the checker does not know of; returns a note. */
  readonly inspect?: (findings: Findings) => string | undefined | Promise<string | undefined>
}

export interface Findings {
  readonly events: readonly HistoryEvent[]
  readonly jobs: readonly FinalJob[]
}

const liveStates = ['scheduled', 'pending', 'running', 'retrying', 'blocked'] as const
const allStates = [...liveStates, 'completed', 'dead', 'cancelled'] as const

/** Where workers are killed on purpose, their jobs have done nothing wrong. */
const manyCrashes = 1_000

export class Arena extends Scene<HistoryEvent, ArenaOptions> {
  readonly place: Place
  readonly mill: Millrace
  readonly losses: Loss[] = []
  #enqueued = 0
  readonly #journal: Journal
  readonly #store: RecordingStore

  constructor(options: ArenaOptions) {
    super(options)
    this.place = options.ground.place(options.storeFolder ?? options.folder)
    this.#journal = new Journal(this.journals, 'harness')
    this.#store = new RecordingStore(openStore(this.place), this.#journal)
    this.mill = new Millrace({ store: this.#store })
  }

  /** The one that the store is on; ours to kill. */
  get server(): ChaosServer {
    const { server } = this.options.ground
    if (server === undefined) throw new Error(`engine ${this.options.engine} has no server`)
    return server
  }

  get cluster(): RedisCluster {
    const { cluster } = this.options.ground
    if (cluster === undefined) throw new Error(`engine ${this.options.engine} has no cluster`)
    return cluster
  }

  /** Resolves when the worker has started. Armed ones may die before; that is not an error. */
  async startWorker(config: Partial<WorkerConfig> = {}, execArgv: string[] = []): Promise<Member> {
    const member = this.launchWorker(config, execArgv)
    await (config.armed === undefined ? member.ready : member.ready.catch(() => {}))
    return member
  }

  launchWorker(config: Partial<WorkerConfig> = {}, execArgv: string[] = []): Member {
    return this.fleet.start('worker-process', (name) => ({ ...this.childConfig(name), ...config }), {
      doomed: config.armed !== undefined,
      execArgv,
    })
  }

  launchProducer(config: Omit<ProducerConfig, keyof ChildConfig> & Partial<ChildConfig>): Member {
    return this.fleet.start('producer-process', (name) => ({ ...this.childConfig(name), ...config }))
  }

  childConfig(name: string): ChildConfig {
    return { place: this.place, journals: this.journals, name, seed: this.random.fork(name).seed }
  }

  /** Enqueues and writes down what was tried and what was acknowledged; refusals are written down, not thrown. */
  async enqueue(inputs: readonly Work[], options: EnqueueOptions = {}): Promise<string[]> {
    const acked = await Promise.all(inputs.map((input) => this.enqueueJob(work, input, options)))
    return acked.filter((id) => id !== undefined)
  }

  async enqueueJob<I>(
    job: JobDefinition<I>,
    input: NoInfer<I>,
    options: EnqueueOptions = {},
  ): Promise<string | undefined> {
    const id = `harness:${this.#enqueued++}`
    try {
      await this.mill.enqueue(job, input, { id, maxCrashes: manyCrashes, ...options })
      this.#journal.write({ e: 'enqueue-ack', id })
      return id
    } catch (error) {
      this.#journal.write(notEnqueued(id, error))
      return undefined
    }
  }

  /** Writes down that jobs which `mill` was given are stored. */
  acknowledge(ids: readonly string[]): void {
    this.#journal.write(...ids.map((id) => ({ e: 'enqueue-ack' as const, id })))
  }

  /** Keeps some jobs in line until the returned function is called, which resolves when it has stopped. */
  feed(makeWork: () => Work, options: { level?: number; delayed?: boolean } = {}): () => Promise<void> {
    const level = options.level ?? 40
    return repeat(async () => {
      const { pending } = await this.counts()
      if (pending < level) {
        const batch = Array.from({ length: 20 }, makeWork)
        await this.enqueue(batch)
        if (options.delayed !== false)
          await this.enqueue([makeWork()], { delay: this.random.integer(1, 300) })
      }
      await sleep(15)
    })
  }

  /** Jobs that a worker holds now, by the store's word. */
  async heldBy(worker: string): Promise<string[]> {
    const jobs = await this.#list('running')
    return jobs.filter((job) => job.worker === worker).map((job) => job.id)
  }

  override async recordLoss(member: Member, t: number): Promise<void> {
    const worker = await member.ready.catch(() => '')
    if (worker !== '') this.losses.push({ worker, t, held: await this.heldBy(worker) })
  }

  protected override isAnswer({ e }: HistoryEvent): boolean {
    return e === 'enqueue-ack' || e === 'claim' || e === 'settle-result'
  }

  async counts(): Promise<Record<JobState, number>> {
    const { states } = await this.mill.stats()
    return { ...states }
  }

  /** Heals (healthy workers, where none is left), drains, ends all processes and judges. */
  async judge(judgement: Judgement): Promise<Row> {
    this.options.progress('draining')
    if (this.fleet.members.every((member) => member.mayDie)) await this.startWorker()
    const healedAt = Date.now()
    const empty = await this.waitUntil(async () => (await this.#backlog()) === 0, settings.drainLimitMs)
    const drainedAfterMs = empty ? Date.now() - healedAt : undefined
    await this.endProcesses(judgement.graceMs ?? 0)

    const state = await integrity(this.place)
    if (state !== 'ok') this.accuse('damage', `the store is damaged: ${state}`)
    const jobs = (await Promise.all(allStates.map((state) => this.#list(state)))).flat().map(toFinal)
    const counts = await this.counts()
    await this.mill.close()
    this.#journal.close()
    const events = readJournals(this.journals)
    const verdict = check({
      events,
      jobs,
      counts,
      losses: this.losses,
      drainedAfterMs,
      limits: { drainMs: settings.drainLimitMs, recoveryMs: settings.recoveryLimitMs },
      allowedErrors: judgement.allowedErrors ?? [],
      repeats: judgement.repeats ?? false,
      forgotten: judgement.forgotten ?? [],
      several: judgement.several ?? false,
    })
    const injected =
      typeof judgement.injected === 'number' ? judgement.injected : judgement.injected({ events, jobs })
    const finding = await judgement.inspect?.({ events, jobs })
    for (const text of this.fleet.crashes) this.accuse('crash', text)
    if (injected === 0) this.accuse('harness', 'no fault was injected')
    if (judgement.expectStale && verdict.staleAttempts === 0)
      this.accuse('harness', 'no stale write was tried')
    return {
      ...this.rowBase(),
      injected,
      acked: verdict.acked,
      lost: verdict.lost,
      rerun: verdict.rerun,
      refusedStale: verdict.refusedStale,
      recoveryP50Ms: medianOf(verdict.recoveries),
      recoveryP99Ms: percentileOf(verdict.recoveries, 0.99),
      recoveryMaxMs: verdict.recoveries.at(-1) ?? null,
      staleAttempts: verdict.staleAttempts,
      duplicates: verdict.duplicates,
      drainMs: drainedAfterMs ?? null,
      note: [judgement.note, finding].filter((note) => note !== undefined).join('; '),
      violations: [...verdict.violations, ...this.violations],
    }
  }

  /** Whatever happens, nothing is left behind. */
  async close(): Promise<void> {
    await this.fleet.killAll()
    await this.mill.close()
  }

  async #backlog(): Promise<number> {
    const counts = await this.counts()
    return liveStates.reduce((sum, state) => sum + counts[state], 0)
  }

  async #list(state: JobState): Promise<JobRecord[]> {
    await this.mill.open()
    const found: JobRecord[] = []
    let cursor: string | undefined
    do {
      const page = await this.#store.list({ filter: { state }, limit: 1000, cursor })
      found.push(...page.jobs)
      cursor = page.cursor
    } while (cursor !== undefined)
    return found
  }
}

function toFinal(job: JobRecord): FinalJob {
  const { id, state, attempt, crashes, maxAttempts, maxCrashes } = job
  return {
    id,
    state,
    attempt,
    crashes,
    maxAttempts,
    maxCrashes,
    resultBy: signer(job.result),
    progressBy: signer(job.progress),
    failureCode: job.failure?.code,
    parents: job.family?.parents ?? [],
  }
}

function signer(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Partial<Signature>).by
}

export { repeat, sleep }

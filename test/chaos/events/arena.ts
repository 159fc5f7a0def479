/**
 * The ground of one run around an event store: a database with the log and read models beside it, and the processes under
 * attack. A fault gets an arena, does its harm, and `judge` drains and asks the checker.
 */
import type { EventLog, ProjectionRecord } from 'millrace/events'
import { integrity, openStore } from '../engine.js'
import type { Fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { readJournals } from '../journal.js'
import type { ChaosServer } from '../place.js'
import { medianOf, percentileOf, type Row } from '../row.js'
import { type AttackOptions, Scene, sleep } from '../scene.js'
import type { Book } from './book.js'
import { checkEvents, type EventsVerdict } from './checker.js'
import type { EventsChildConfig, EventsPlace } from './child.js'
import { models } from './definitions.js'
import type { EventsEvidence, LiveModel } from './evidence.js'
import type { EventsEngine, EventsGround } from './ground.js'
import type { EventsEvent } from './history.js'
import { lastSeen } from './last-seen.js'
import { openBook } from './open-book.js'
import type { ProjectorConfig } from './projector-process.js'
import type { RebuilderConfig } from './rebuilder-process.js'
import { eventsSettings } from './settings.js'
import type { WriterConfig } from './writer-process.js'

export type EventsFault = Fault<EventsEngine, EventsGround>

export interface EventsJudgement extends Partial<Pick<EventsEvidence, 'mayComplain'>> {
  readonly injected: number
  readonly writers: readonly Member[]
  readonly followers?: readonly Member[]
  readonly reacts?: boolean
  /** The fault makes workers write what is another's; it failed if none tried. */
  readonly expectStale?: boolean
  /** Where that takes longer. */
  readonly drainLimitMs?: number
  readonly note?: (evidence: EventsEvidence) => string
}

export class EventsArena extends Scene<EventsEvent, AttackOptions<EventsEngine, EventsGround>> {
  readonly place: EventsPlace
  readonly book: Book
  readonly #log: EventLog
  readonly #losses: { name: string; t: number }[] = []

  static async open(options: AttackOptions<EventsEngine, EventsGround>): Promise<EventsArena> {
    const arena = new EventsArena(options)
    await arena.book.setUp()
    await arena.#log.open()
    return arena
  }

  private constructor(options: AttackOptions<EventsEngine, EventsGround>) {
    super(options)
    this.place = options.ground.place(options.folder)
    this.book = openBook(this.place.book)
    this.#log = this.book.log()
  }

  get server(): ChaosServer {
    const { server } = this.options.ground
    if (server === undefined) throw new Error('this fault is for a server only')
    return server
  }

  /** Resolves when the worker has started. Armed ones may die before; that is not an error. */
  async startProjector(config: Partial<ProjectorConfig> = {}): Promise<Member> {
    const member = this.launchProjector(config)
    await (config.armed === undefined ? member.ready : member.ready.catch(() => {}))
    return member
  }

  launchProjector(config: Partial<ProjectorConfig> = {}): Member {
    const make = (name: string): ProjectorConfig => ({
      ...this.#childConfig(name),
      models: ['totals'],
      reacts: false,
      ...config,
    })
    return this.fleet.start('events/projector-process', make, { doomed: config.armed !== undefined })
  }

  launchRebuilder(config: Partial<RebuilderConfig> = {}): Member {
    const make = (name: string): RebuilderConfig => ({
      ...this.#childConfig(name),
      model: 'totals',
      ...config,
    })
    return this.fleet.start('events/rebuilder-process', make, { doomed: config.armed !== undefined })
  }

  launchWriter(config: Partial<WriterConfig> = {}): Member {
    const isFile = this.place.book.engine === 'sqlite'
    const make = (name: string): WriterConfig => ({
      ...this.#childConfig(name),
      // A file has one writer at a time.
      connections: isFile ? 1 : 2,
      holdMs: isFile ? 3 : 20,
      pauseMs: 60,
      ...config,
    })
    return this.fleet.start('events/writer-process', make, { doomed: config.armed !== undefined })
  }

  launchFollower(config: Partial<EventsChildConfig> = {}): Member {
    return this.fleet.start('events/follower-process', (name) => ({ ...this.#childConfig(name), ...config }))
  }

  #childConfig(name: string): EventsChildConfig {
    return { place: this.place, journals: this.journals, name, seed: this.random.fork(name).seed }
  }

  override recordLoss({ name }: Member, t: number): void {
    this.#losses.push({ name, t })
  }

  protected override isAnswer({ e }: EventsEvent): boolean {
    return e === 'committed' || e === 'looked' || e === 'seen'
  }

  projections(): Promise<ProjectionRecord[]> {
    return this.#log.projections()
  }

  /** Stops whoever writes, waits until everybody has seen everything, ends all processes and judges. */
  async judge(judgement: EventsJudgement): Promise<Row> {
    const { writers, followers = [], reacts = false, mayComplain = false } = judgement
    const { drainLimitMs = eventsSettings.drainLimitMs } = judgement
    this.options.progress('draining')
    for (const writer of writers) writer.signal('SIGTERM')
    await Promise.all(writers.map((writer) => this.ended(writer, eventsSettings.graceMs)))
    const drainedAfterMs = await this.#drain(followers, drainLimitMs)
    const endedAt = Date.now()
    await this.endProcesses(eventsSettings.graceMs)
    await this.#lookForDamage()
    const evidence: EventsEvidence = {
      events: readJournals<EventsEvent>(this.journals),
      kept: await this.book.events(),
      sightings: await this.book.sightings(),
      models: await this.#models(),
      followers: followers.map(({ name }) => name),
      jobs: reacts ? await this.#jobs() : undefined,
      tables: await this.book.tables(),
      losses: this.#losses,
      endedAt,
      drainedAfterMs,
      limits: { drainMs: drainLimitMs, recoveryMs: eventsSettings.recoveryLimitMs },
      mayComplain,
    }
    const verdict = checkEvents(evidence)
    for (const text of this.fleet.crashes) this.accuse('crash', text)
    if (judgement.injected === 0) this.accuse('harness', 'no fault was injected')
    if (verdict.kept === 0) this.accuse('harness', 'nobody wrote anything')
    if (judgement.expectStale && verdict.staleAttempts === 0)
      this.accuse('harness', 'nobody tried to write what was another’s')
    const suicides = evidence.events.filter(({ e }) => e === 'die').length
    const notes = [
      ...(suicides > 0 ? [`${suicides} died at their points`] : []),
      `${verdict.doubtful} commits unheard of`,
      ...(judgement.note === undefined ? [] : [judgement.note(evidence)]),
    ]
    return this.#row(judgement, verdict, drainedAfterMs, notes.join('; '))
  }

  async close(): Promise<void> {
    await this.fleet.killAll()
    await Promise.all([this.#log.close(), this.book.close()])
  }

  async #drain(followers: readonly Member[], limitMs: number): Promise<number | undefined> {
    const from = Date.now()
    const end = (await this.book.events()).at(-1)?.position ?? 0
    const isDrained = async () => {
      for (const record of await this.projections()) {
        if (record.building !== undefined) return false
        if (record.checkpoints.some(({ position }) => position < end)) return false
      }
      return followers.every(({ name }) => lastSeen(this.journals, name) >= end)
    }
    const drained = await this.waitUntil(isDrained, limitMs)
    return drained ? Date.now() - from : undefined
  }

  async #lookForDamage(): Promise<void> {
    const state = await integrity(this.place.book)
    if (state !== 'ok') this.accuse('damage', `the log is damaged: ${state}`)
  }

  async #models(): Promise<LiveModel[]> {
    const known = (await this.projections()).filter(({ name }) => name in models)
    const all = known.map(async ({ name, live }) => {
      const table = `${name}_${live}`
      const isThere = (await this.book.tables()).includes(table)
      return { name, generation: live, table, totals: isThere ? await this.book.totals(table) : [] }
    })
    return Promise.all(all)
  }

  /** Keys of the events that have one. */
  async #jobs(): Promise<string[]> {
    const store = openStore(this.place.jobs)
    await store.open()
    const keys: string[] = []
    let cursor: string | undefined
    do {
      const page = await store.list({ filter: { state: 'pending' }, limit: 1000, cursor })
      keys.push(...page.jobs.map(({ input }) => (JSON.parse(input) as { key: string }).key))
      cursor = page.cursor
    } while (cursor !== undefined)
    await store.close()
    return keys
  }

  #row(
    { injected }: EventsJudgement,
    verdict: EventsVerdict,
    drainedAfterMs: number | undefined,
    note: string,
  ): Row {
    const { kept, lost, again, recoveries, refusedStale, staleAttempts } = verdict
    return {
      ...this.rowBase(),
      injected,
      acked: kept,
      lost,
      rerun: again,
      refusedStale,
      staleAttempts,
      recoveryP50Ms: medianOf(recoveries),
      recoveryP99Ms: percentileOf(recoveries, 0.99),
      recoveryMaxMs: recoveries.at(-1) ?? null,
      duplicates: 0,
      drainMs: drainedAfterMs ?? null,
      note,
      violations: [...verdict.violations, ...this.violations],
    }
  }
}

export { sleep }

/** A fault on one event store. */
export function eventsFault(
  name: string,
  weight: number,
  body: (arena: EventsArena) => Promise<Row>,
  engines?: readonly EventsEngine[],
): EventsFault {
  return {
    name,
    weight,
    ...(engines && { engines }),
    async run(options) {
      const arena = await EventsArena.open(options)
      try {
        return await body(arena)
      } finally {
        await arena.close()
      }
    },
  }
}

/** So many in a full run, fewer in a short one. */
export function roundsOf({ options }: EventsArena, full: number): number {
  return Math.max(1, Math.round(full * options.scale))
}

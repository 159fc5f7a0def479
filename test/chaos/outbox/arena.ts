/**
 * The ground of one run around an outbox: a database with orders and the outbox beside them, a Millrace and a broker that
 * what was written goes to, and the processes under attack. A fault gets an arena, does its harm, and `judge` drains and
 * asks the checker.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type JobState, Millrace } from 'millrace'
import { Outbox } from 'millrace/outbox'
import { integrity, openStore, withClient } from '../engine.js'
import type { Fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { parse, readJournals } from '../journal.js'
import type { ChaosServer } from '../place.js'
import { medianOf, percentileOf, type Row } from '../row.js'
import { type AttackOptions, Scene, sleep } from '../scene.js'
import type { Business } from './business.js'
import { checkOutbox, type OutboxVerdict } from './checker.js'
import type { OutboxChildConfig, OutboxPlace } from './child.js'
import type { OutboxEvidence } from './evidence.js'
import type { OutboxEngine, OutboxGround } from './ground.js'
import type { Delivery, OutboxEvent } from './history.js'
import { openBusiness } from './open-business.js'
import type { RelayConfig } from './relay-process.js'
import { outboxSettings } from './settings.js'
import type { WriterConfig } from './writer-process.js'

export type OutboxFault = Fault<OutboxEngine, OutboxGround>

export interface OutboxJudgement
  extends Partial<Pick<OutboxEvidence, 'hasZombies' | 'mayRerun' | 'mayComplain'>> {
  readonly injected: number
  /** The fault makes relays settle what is another's; it failed if none tried. */
  readonly expectStale?: boolean
  readonly note?: string
}

const allStates: readonly JobState[] = [
  'scheduled',
  'pending',
  'running',
  'retrying',
  'blocked',
  'completed',
  'dead',
  'cancelled',
]

export class OutboxArena extends Scene<OutboxEvent, AttackOptions<OutboxEngine, OutboxGround>> {
  readonly place: OutboxPlace
  readonly #losses: { name: string; t: number }[] = []
  readonly #business: Business
  readonly #outbox: Outbox
  readonly #store: ReturnType<typeof openStore>
  readonly #mill: Millrace

  static async open(options: AttackOptions<OutboxEngine, OutboxGround>): Promise<OutboxArena> {
    const arena = new OutboxArena(options)
    await arena.#business.setUp()
    await Promise.all([arena.#outbox.open(), arena.#mill.open()])
    return arena
  }

  private constructor(options: AttackOptions<OutboxEngine, OutboxGround>) {
    super(options)
    this.place = options.ground.place(options.folder)
    this.#business = openBusiness(this.place.business)
    this.#outbox = new Outbox({ store: this.#business.store() })
    this.#store = openStore(this.place.target)
    this.#mill = new Millrace({ store: this.#store })
  }

  /** The one that the outbox is on; ours to kill. */
  get server(): ChaosServer {
    return serverOf(this.options.ground.server)
  }

  /** The one that the Millrace is on. */
  get target(): ChaosServer {
    return serverOf(this.options.ground.target)
  }

  /** Resolves when the relay has started. Armed ones may die before; that is not an error. */
  async startRelay(config: Partial<RelayConfig> = {}): Promise<Member> {
    const member = this.launchRelay(config)
    await (config.armed === undefined ? member.ready : member.ready.catch(() => {}))
    return member
  }

  launchRelay(config: Partial<RelayConfig> = {}): Member {
    const make = (name: string): RelayConfig => ({ ...this.#childConfig(name), source: 'poll', ...config })
    return this.fleet.start('outbox/relay-process', make, { doomed: config.armed !== undefined })
  }

  launchWriter(config: Partial<WriterConfig> = {}): Member {
    const make = (name: string): WriterConfig => ({
      ...this.#childConfig(name),
      poison: 0.02,
      pauseMs: 25,
      ...config,
    })
    return this.fleet.start('outbox/writer-process', make, { doomed: config.armed !== undefined })
  }

  launchRunner(): Member {
    return this.fleet.start('outbox/runner-process', (name) => this.#childConfig(name))
  }

  #childConfig(name: string): OutboxChildConfig {
    return { place: this.place, journals: this.journals, name, seed: this.random.fork(name).seed }
  }

  override recordLoss({ name }: Member, t: number): void {
    this.#losses.push({ name, t })
  }

  protected override isAnswer({ e }: OutboxEvent): boolean {
    return e === 'committed' || e === 'claimed' || e === 'idle' || e === 'effect'
  }

  /** Stops whoever writes, drains, ends all processes and judges. */
  async judge(writers: readonly Member[], judgement: OutboxJudgement): Promise<Row> {
    const { hasZombies = false, mayRerun = false, mayComplain = false } = judgement
    this.options.progress('draining')
    for (const writer of writers) writer.signal('SIGTERM')
    await Promise.all(writers.map((writer) => this.ended(writer, outboxSettings.graceMs)))
    const drainedAfterMs = await this.#drain()
    await this.endProcesses(outboxSettings.graceMs)
    await this.#lookForDamage()
    const orders = await this.#business.orders()
    // For a look at what --keep leaves: a server and its tables are gone by then.
    writeFileSync(join(this.options.folder, 'orders.json'), JSON.stringify(orders))
    const verdict = checkOutbox({
      events: readJournals<OutboxEvent>(this.journals),
      orders,
      deliveries: this.#deliveries(),
      jobs: (await Promise.all(allStates.map((state) => this.#jobs(state)))).flat(),
      aside: await this.#aside(),
      losses: this.#losses,
      drainedAfterMs,
      limits: { drainMs: outboxSettings.drainLimitMs, recoveryMs: outboxSettings.recoveryLimitMs },
      hasZombies,
      mayRerun,
      mayComplain,
    })
    for (const text of this.fleet.crashes) this.accuse('crash', text)
    if (judgement.injected === 0) this.accuse('harness', 'no fault was injected')
    if (verdict.committed === 0) this.accuse('harness', 'nobody wrote anything')
    if (judgement.expectStale && verdict.staleAttempts === 0)
      this.accuse('harness', 'no stale settlement was tried')
    return this.#row(judgement, verdict, drainedAfterMs)
  }

  async close(): Promise<void> {
    await this.fleet.killAll()
    await Promise.all([this.#outbox.close(), this.#mill.close(), this.#business.close()])
  }

  async #drain(): Promise<number | undefined> {
    const healedAt = Date.now()
    const isEmpty = async () => {
      const { waiting, held } = await this.#outbox.stats()
      if (waiting.job + waiting.message + held.job + held.message > 0) return false
      const { states } = await this.#mill.stats()
      return states.pending + states.running + states.retrying + states.scheduled === 0
    }
    const isDrained = await this.waitUntil(isEmpty, outboxSettings.drainLimitMs)
    return isDrained ? Date.now() - healedAt : undefined
  }

  async #lookForDamage(): Promise<void> {
    const { business, target } = this.place
    for (const place of [business, target]) {
      const state = await integrity(place)
      if (state !== 'ok') this.accuse('damage', `the store is damaged: ${state}`)
    }
    if (business.engine !== 'postgres') return
    const left = () =>
      withClient(business.url, (client) => client.query('SELECT FROM pg_replication_slots')).then(
        ({ rowCount }) => rowCount,
      )
    if (!(await this.waitUntil(async () => (await left()) === 0, slotLimitMs)))
      this.accuse('I13', `${await left()} replication slots are left behind`)
  }

  #deliveries(): Delivery[] {
    const { delivered } = this.place
    return existsSync(delivered) ? parse<Delivery>(readFileSync(delivered)) : []
  }

  async #aside(): Promise<OutboxEvidence['aside']> {
    const found: OutboxEvidence['aside'][number][] = []
    let cursor: number | undefined
    do {
      const page = await this.#outbox.aside.list({ limit: 100, cursor })
      found.push(...page.rows)
      cursor = page.cursor
    } while (cursor !== undefined)
    return found
  }

  async #jobs(state: JobState): Promise<OutboxEvidence['jobs'][number][]> {
    const found: OutboxEvidence['jobs'][number][] = []
    let cursor: string | undefined
    do {
      const page = await this.#store.list({ filter: { state }, limit: 1000, cursor })
      found.push(...page.jobs)
      cursor = page.cursor
    } while (cursor !== undefined)
    return found
  }

  #row({ injected, note }: OutboxJudgement, verdict: OutboxVerdict, drainedAfterMs: number | undefined): Row {
    const { duplicates, recoveries, doubtful, setAside } = verdict
    const counted = `${duplicates.message} messages and ${duplicates.job} jobs were handed on twice, ${setAside} set aside, ${doubtful} commits unheard of`
    return {
      ...this.rowBase(),
      injected,
      acked: verdict.committed,
      lost: verdict.lost,
      rerun: verdict.rerun,
      refusedStale: verdict.refusedStale,
      staleAttempts: verdict.staleAttempts,
      recoveryP50Ms: medianOf(recoveries),
      recoveryP99Ms: percentileOf(recoveries, 0.99),
      recoveryMaxMs: recoveries.at(-1) ?? null,
      duplicates: duplicates.message + duplicates.job,
      drainMs: drainedAfterMs ?? null,
      note: note === undefined ? counted : `${counted}; ${note}`,
      violations: [...verdict.violations, ...this.violations],
    }
  }
}

/** A slot is temporary, so it ends with its connection, once the server has noticed. */
const slotLimitMs = 15_000

function serverOf(server: ChaosServer | undefined): ChaosServer {
  if (server === undefined) throw new Error('this fault is for a server only')
  return server
}

export { sleep }

/** A fault on one outbox. */
export function outboxFault(
  name: string,
  weight: number,
  body: (arena: OutboxArena) => Promise<Row>,
  engines?: readonly OutboxEngine[],
): OutboxFault {
  return {
    name,
    weight,
    ...(engines && { engines }),
    async run(options) {
      const arena = await OutboxArena.open(options)
      try {
        return await body(arena)
      } finally {
        await arena.close()
      }
    },
  }
}

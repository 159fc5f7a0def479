/** What every run has, whatever is under attack: processes, their journals, and what went wrong on the way. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Invariant, Violation } from './checker.js'
import { Fleet, type Member } from './fleet.js'
import { Tail, type Timed } from './journal.js'
import type { Random } from './random.js'
import { medianOf, percentileOf, type Row } from './row.js'
import { settings } from './settings.js'

export interface AttackOptions<E extends string, G> {
  readonly engine: E
  readonly ground: G
  readonly fault: string
  readonly folder: string
  readonly random: Random
  /** How many kills this fault is to give. */
  readonly kills: number
  /** 1 for the full run, less for a short one: scales the faults that do not kill. */
  readonly scale: number
  /** How long a long outage is. */
  readonly outageMs: number
  readonly progress: (text: string) => void
}

/** An idle process has nothing to wait for after SIGTERM. */
const endLimitMs = 2_000

export abstract class Scene<Event extends Timed, Options extends AttackOptions<string, unknown>> {
  readonly options: Options
  readonly random: Random
  readonly fleet: Fleet
  /** What went wrong on the way. */
  readonly violations: Violation[] = []
  /** How long each process took to be at work again, each time that a fault had healed. */
  readonly resumes: number[] = []
  interrupted = 0
  kills = 0
  protected readonly journals: string
  protected readonly startedAt = Date.now()

  constructor(options: Options) {
    this.options = options
    this.random = options.random
    this.journals = join(options.folder, 'journals')
    mkdirSync(this.journals, { recursive: true })
    this.fleet = new Fleet(this.journals)
  }

  /** Something that only what is under attack can have said. */
  protected abstract isAnswer(event: Event): boolean

  /** From `t` on, the process does nothing any more for what it has. */
  abstract recordLoss(member: Member, t: number): void | Promise<void>

  /** Waits for a process that is to be killed and writes down what it held. */
  async bury(member: Member, diedAt?: number): Promise<void> {
    const exit = await member.exit
    if (exit.signal !== 'SIGKILL') return this.accuse('crash', `by itself, ${member.obituary()}`)
    this.kills++
    await this.recordLoss(member, diedAt ?? exit.t)
    this.options.progress(`${this.kills} kills`)
  }

  /** Kills a process now. */
  async kill(member: Member): Promise<void> {
    const t = member.signal('SIGKILL')
    await this.bury(member, t)
  }

  /** A process that got SIGTERM ends with its grace at the latest, or is accused and killed. */
  async ended(member: Member, graceMs: number): Promise<void> {
    const limitMs = graceMs + endLimitMs
    if ((await Promise.race([member.exit, sleep(limitMs)])) !== undefined) return
    this.accuse('I13', `${member.name} did not end within ${limitMs} ms of its signal`)
    member.signal('SIGKILL')
  }

  /** By SIGTERM first, so that each run ends with a proper shutdown too. */
  protected async endProcesses(graceMs: number): Promise<void> {
    for (const member of this.fleet.members) member.signal('SIGTERM')
    await Promise.all(this.fleet.members.map((member) => this.ended(member, graceMs)))
    await this.fleet.killAll()
  }

  /** Ends a fault; each of these processes, which nobody restarts, must then get answers again. */
  async heal(members: readonly Member[], heal: () => void | Promise<void>): Promise<void> {
    const tails = new Map(members.map((member) => [member, this.tail(member)]))
    const from = Date.now()
    await heal()
    const healedAt = Date.now()
    this.interrupted += members.length
    await this.waitUntil(() => {
      for (const [member, tail] of tails) {
        const sign = tail.read().find((event) => event.t >= from && this.isAnswer(event))
        if (sign === undefined) continue
        this.resumes.push(Math.max(0, sign.t - healedAt))
        tails.delete(member)
      }
      return tails.size === 0
    }, settings.resumeLimitMs)
    for (const { name } of tails.keys())
      this.accuse('I13', `${name} is not at work again ${settings.resumeLimitMs} ms after the fault`)
  }

  /** What a process writes down from now on. */
  tail(member: Member): Tail<Event> {
    return new Tail<Event>(this.journals, member.name)
  }

  accuse(invariant: Invariant, text: string): void {
    this.violations.push({ invariant, text })
  }

  async waitUntil(what: () => Promise<boolean> | boolean, limitMs: number): Promise<boolean> {
    const end = Date.now() + limitMs
    while (Date.now() < end) {
      if (await what()) return true
      await sleep(10)
    }
    return false
  }

  /** The part of a row that does not depend on what was under attack. */
  protected rowBase() {
    return {
      engine: this.options.engine,
      fault: this.options.fault,
      resumed: this.resumes.length,
      interrupted: this.interrupted,
      resumeP50Ms: medianOf(this.resumes),
      resumeP99Ms: percentileOf(this.resumes, 0.99),
      resumeMaxMs: percentileOf(this.resumes, 1 - Number.EPSILON),
      kills: this.kills,
      ms: Date.now() - this.startedAt,
      seed: this.random.seed,
    } satisfies Partial<Row>
  }
}

/** Does it again and again, until what this returns is called; that resolves when the last one is done. */
export function repeat(action: (n: number) => Promise<void>): () => Promise<void> {
  let running = true
  const loop = async () => {
    for (let n = 0; running; n++) await action(n)
  }
  const done = loop()
  done.catch(() => {}) // whoever stops it sees it
  return () => {
    running = false
    return done
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

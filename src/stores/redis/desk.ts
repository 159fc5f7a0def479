/**
 * The desk: where all is done that the fast path does not do. The verbs of the ledger are tried on what has been read so far;
 * what they miss is read, and they are tried again; at last what they have changed is written by one script, if nobody else
 * has written at the desk since, and all jobs that it changes are as they were read. Otherwise all is done once more.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { FinalState } from '../../core/job.js'
import type { Signal } from '../../core/store.js'
import { newToken } from '../../system/ids.js'
import type { Ranked } from '../ledger/shelf.js'
import type { DeskOptions } from '../page/desk-options.js'
import { Habits } from '../page/habits.js'
import { Needs, Stale } from '../page/needs.js'
import { Page } from '../page/page.js'
import { type Done, tryOn, type Verb } from '../page/trying.js'
import type { Connection } from './connection.js'
import { isRefusedWith } from './errors.js'
import type { Deeds, Told } from './page/deeds.js'
import { KnownKinds } from './page/known-kinds.js'
import { questionsFor } from './page/load.js'
import { number } from './page/load-sheets.js'
import { callIn, type Loans, lend, writeLoans } from './page/loans.js'
import type { Question } from './page/question.js'
import { writings } from './page/write.js'
import { scripts } from './scripts.js'
import { tokens } from './token.js'

/** Processes that are woken for jobs that became ready at the desk: how many there are is not counted. */
const wakes = 10

/** How often a verb is done again because others were quicker. */
const mostConflicts = 500

/** After so many, it asks that nobody else writes meanwhile: those who are always busy would be quicker for ever. */
const patientConflicts = 3
const turnMs = { each: 20, most: 2_000 } as const

export interface RedisDeskOptions<T> extends DeskOptions {
  /** Writes more than the tables know of. */
  readonly also?: (result: T, deeds: Deeds) => void
}

export class Desk {
  readonly #connection: Connection
  readonly #clock: Clock | undefined
  readonly #ear: string
  /** Other shards than home do not know the limits. */
  readonly #lends: boolean
  /** Where the last look at surplus jobs ended; kept from sweep to sweep. */
  readonly #surplus = new Map<FinalState, Ranked>()
  readonly #habits = new Habits()
  readonly #kinds = new KnownKinds()
  /** Verbs of this process take turns. */
  #turn: Promise<void> = Promise.resolve()

  constructor(connection: Connection, ear: string, clock: Clock | undefined, lends: boolean) {
    this.#connection = connection
    this.#ear = ear
    this.#clock = clock
    this.#lends = lends
  }

  /**
   * The next verb begins to read when this one has sent what it writes: the server does one after the other. If others were
   * quicker, it is done again when those have ended that wait already, and nobody begins before it is done.
   */
  async work<T>(verb: Verb<T>, options: RedisDeskOptions<T> = {}): Promise<Done<T>> {
    // What the verb has looked for and not found, others have added since.
    const isKnown = options.fresh === undefined || options.fresh.size === 0
    const again = isKnown ? ['MRSTALE', 'MRKNOWN'] : ['MRSTALE']
    try {
      return await this.#inTurn((sent) => this.#write(verb, options, '', sent))
    } catch (error) {
      if (!isConflict(error, again)) throw error
      const write = (conflicts: number) => this.#write(verb, options, turnAfter(conflicts + 1))
      return this.#inTurn(() => untilDone(write, again))
    }
  }

  /** The next one comes when this one is over, or says that it may. */
  #inTurn<T>(work: (next: () => void) => Promise<T>): Promise<T> {
    const before = this.#turn
    return new Promise<T>((resolve, reject) => {
      this.#turn = new Promise<void>((next) => {
        void before
          .then(() => work(next))
          .then(resolve, reject)
          .finally(next)
      })
    })
  }

  /** Reads only. */
  async look<T>(verb: Verb<T>, options: RedisDeskOptions<T> = {}): Promise<T> {
    const { done } = await untilDone(async (conflicts) => {
      const turn = turnAfter(conflicts)
      const tried = await this.#try(verb, options, turn, false)
      await this.#giveUp(turn)
      return tried
    })
    return done.result
  }

  /** Questions that no verb asks; resolves to the store's time. */
  async ask(questions: readonly Question[]): Promise<number> {
    return (await this.#ask('', questions)).now
  }

  /** `sent`: called when all is on its way to the server. */
  async #write<T>(
    verb: Verb<T>,
    options: RedisDeskOptions<T>,
    turn: Turn,
    sent: () => void = () => {},
  ): Promise<Done<T>> {
    let loans: Loans = new Map()
    const lending: Verb<T> = (tables, now) => {
      const result = verb(tables, now)
      if (this.#lends) loans = lend(tables, options.queues ?? [])
      return result
    }
    const { done, commit, mark } = await this.#try(lending, options, turn, true)
    const deeds = writings(done.tables)
    writeLoans(done.tables, loans, deeds)
    options.also?.(done.result, deeds)
    done.tables.signals.tell()
    if (deeds.isEmpty) {
      await this.#giveUp(turn)
      return done
    }
    for (const signal of done.tables.news) {
      // Who has been given jobs here has no longer the room that it left behind; see gifts.ts.
      if (signal.type === 'claimed') deeds.call('HDEL', 'offers', this.#ear)
      if (signal.type === 'ready')
        for (const queue of signal.queues) deeds.write('wake', queue, wakes, this.#ear)
      else if (isForAll(signal)) deeds.write('tell', this.#ear, '!')
    }
    const args = [commit, newToken(), this.#ear, mark, ...deeds.args()]
    const answer = this.#connection.run(scripts.write, args)
    sent()
    deeds.hear((await answer) as Told)
    return done
  }

  /** Nothing was written, so others do not know yet that they may have theirs. */
  async #giveUp(turn: Turn): Promise<void> {
    if (turn !== '') await this.#ask('', [], 0)
  }

  async #try<T>(
    verb: Verb<T>,
    options: RedisDeskOptions<T>,
    turn: Turn,
    changes: boolean,
  ): Promise<{ done: Done<T>; commit: string; mark: string }> {
    const { count = 1, renewsByTaking = false, needs = new Needs(), isWhole, fresh, like } = options
    const page = new Page(isWhole, fresh)
    page.changes = changes
    if (like !== undefined) this.#habits.expect(like, needs, count)
    let mark = ''
    let commit = ''
    const read = async (missing: Needs, always: readonly Question[] = []) => {
      const questions = [...always, ...questionsFor(page, missing, this.#kinds)]
      if (questions.length === 0) return
      if (questions.some(({ gives }) => gives)) {
        mark = newToken()
        questions.push({ name: 'mark', values: [mark], take() {} })
      }
      const answer = await this.#ask(commit, questions, turn)
      if (commit === '') page.now = answer.now
      commit = answer.commit
    }
    await read(needs, [this.#kinds.sheets(page), number(page)])
    const done = await tryOn({
      page,
      verb: (tables, now) => {
        callIn(tables, now)
        return verb(tables, now)
      },
      count,
      renewsByTaking,
      lends: this.#lends,
      tokens,
      surplus: this.#surplus,
      read,
    })
    if (like !== undefined) this.#habits.learn(like, page.found)
    return { done, commit, mark }
  }

  /** `commit`: the last one when the first question was asked; '' for that one. */
  async #ask(
    commit: string,
    questions: readonly Question[],
    turn: Turn = '',
  ): Promise<{ now: number; commit: string }> {
    const args = questions.flatMap(({ name, values = [] }) => [name, values.length, ...values])
    const [now, seen, ...answers] = (await this.#connection.run(
      scripts.look,
      [this.#clock?.now() ?? '', commit, this.#ear, turn, ...args],
      { durable: false },
    )) as [string, string, ...never[]]
    questions.forEach(({ take }, i) => {
      take(answers[i] as never)
    })
    return { now: Number(now), commit: seen }
  }
}

/** For how many ms nobody else may write; '' for all may. */
type Turn = number | ''

/** Longer each time: who is far away needs more. */
function turnAfter(conflicts: number): Turn {
  return conflicts < patientConflicts ? '' : Math.min(turnMs.most, conflicts * turnMs.each)
}

/** Work is done again when others were quicker: the server says so by one of these words. */
async function untilDone<T>(
  work: (conflicts: number) => Promise<T>,
  words: readonly string[] = ['MRSTALE'],
): Promise<T> {
  for (let conflicts = 0; conflicts < mostConflicts; conflicts++) {
    try {
      return await work(conflicts)
    } catch (error) {
      if (!isConflict(error, words)) throw error
      await sleep(Math.random() * Math.min(50, 1 + conflicts))
    }
  }
  throw new MillraceError('STORE_BUSY', 'others were in the way for too long; nothing was written')
}

function isConflict(error: unknown, words: readonly string[]): boolean {
  return error instanceof Stale || isRefusedWith(error, ...words)
}

/** Others cannot see it by themselves. */
function isForAll({ type }: Signal): boolean {
  return type === 'changed' || type === 'cancel' || type === 'due'
}

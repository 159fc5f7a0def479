/**
 * The desk: where all is done that the fast path does not do. One transaction at a time has it, by a lock. In there the
 * verbs of the ledger are tried on what has been read so far; what they miss is read, all of it at once, and they are tried
 * again; at last what they have changed is written. So they behave as they do in memory, whatever they are.
 */
import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { FinalState, NewJob } from '../../core/job.js'
import type { Ask } from '../../databases/postgres/connection.js'
import { insertFromHandler } from '../ledger/insert.js'
import type { Ranked } from '../ledger/shelf.js'
import { checkedTokens } from '../ledger/token.js'
import type { DeskOptions } from '../page/desk-options.js'
import { Habits } from '../page/habits.js'
import { Needs, Stale } from '../page/needs.js'
import { type Arrival, Page } from '../page/page.js'
import { type Done, tryOn, type Verb } from '../page/trying.js'
import { planner } from './functions.js'
import { kindSheets, type Question, questionsFor } from './page/load.js'
import { writings } from './page/write.js'
import { write } from './sql.generated.js'
import { loading, looking, Statements } from './statements.js'

/** Arrivals that one transaction admits; see load.sql. */
export const arrivalsAtOnce = 100
/** How often all is read again because others changed it meanwhile. */
const mostReads = 20

export class Desk {
  readonly #clock: Clock | undefined
  readonly #load: Statements
  readonly #look: Statements
  readonly #write: Statements
  /** Where the last look at surplus jobs ended; kept from sweep to sweep. */
  readonly #surplus = new Map<FinalState, Ranked>()
  readonly #habits = new Habits()

  constructor(schema: string, clock: Clock | undefined) {
    this.#clock = clock
    this.#load = loading(schema)
    this.#look = looking(schema)
    this.#write = new Statements(write, schema)
  }

  get timeQuery(): string {
    return this.#look.bound('time')
  }

  /** Does a verb in a transaction of its own. */
  async work<T>(ask: Ask, begin: string, verb: Verb<T>, options: DeskOptions = {}): Promise<Done<T>> {
    const { done } = await this.#tried(ask, [begin, ...planning], verb, options)
    await this.#finish(ask, done, ['COMMIT'])
    return done
  }

  /** The same inside a transaction that is begun, and not committed here. `opening` is said before all waits begin. */
  async within<T>(ask: Ask, opening: string, verb: Verb<T>, options: DeskOptions = {}): Promise<Done<T>> {
    const { done } = await this.#tried(ask, [opening], verb, options)
    await this.#finish(ask, done, [])
    return done
  }

  /** Reads only, without the lock, as all was at one moment. */
  async look<T>(
    ask: Ask,
    verb: Verb<T>,
    options: DeskOptions = {},
  ): Promise<{ result: T; hasArrivals: boolean }> {
    const { page, done } = await this.#tried(ask, beginLook, verb, options, false)
    await ask('COMMIT')
    return { result: done.result, hasArrivals: page.arrivals.length > 0 }
  }

  async #tried<T>(
    ask: Ask,
    opening: readonly string[],
    verb: Verb<T>,
    options: DeskOptions,
    locks = true,
  ): Promise<{ page: Page; done: Done<T> }> {
    let first = locks ? [...opening, this.#load.bound('begin')] : opening
    for (let reads = 0; reads < mostReads; reads++) {
      const page = new Page(options.isWhole, options.fresh)
      const expected = options.needs ?? new Needs()
      if (options.like !== undefined) this.#habits.expect(options.like, expected, options.count ?? 1)
      const needs = questionsFor(page, expected)
      const always = [this.#time(page), ...kindSheets(page), number(page), arrivals(page)]
      await this.#read(ask, page, first, [...always, ...needs], locks)
      try {
        const done = await this.#triedOn(ask, page, verb, options, locks)
        if (options.like !== undefined) this.#habits.learn(options.like, page.found)
        return { page, done }
      } catch (error) {
        if (!(error instanceof Stale)) throw error
        first = []
      }
    }
    throw new MillraceError('STORE_CORRUPT', 'a job is neither waiting nor running nor done')
  }

  #triedOn<T>(
    ask: Ask,
    page: Page,
    verb: Verb<T>,
    { count = 1, renewsByTaking = false }: DeskOptions,
    locks: boolean,
  ): Promise<Done<T>> {
    return tryOn({
      page,
      verb: locks ? afterArrivals(verb) : verb,
      count,
      renewsByTaking,
      tokens: checkedTokens,
      surplus: this.#surplus,
      read: (needs) => {
        if (!locks) pretendPositions(page)
        return this.#read(ask, page, [], questionsFor(page, needs), locks)
      },
    })
  }

  async #read(
    ask: Ask,
    page: Page,
    opening: readonly string[],
    questions: readonly Question[],
    locks: boolean,
  ): Promise<void> {
    const statements = locks ? this.#load : this.#look
    const texts = questions.map(({ statement, values }) => statements.bound(statement, values))
    const answers = await ask([...opening, ...texts].join(';\n'))
    questions.forEach((question, i) => {
      question.take(answers[answers.length - questions.length + i] ?? [])
    })
    page.needs = new Needs()
  }

  async #finish(ask: Ask, { tables }: Done<unknown>, closing: readonly string[]): Promise<void> {
    const admitted = tables.page.arrivals.map(({ n }) => n)
    const written = writings(tables)
    if (admitted.length > 0) written.push({ statement: 'admitted', values: [admitted] })
    const texts = written.map(({ statement, values }) => this.#write.bound(statement, values))
    const script = [...texts, ...closing]
    if (script.length === 0) return
    const answers = await ask(script.join(';\n'))
    written.forEach(({ take }, i) => {
      take?.((answers[i] ?? []) as readonly never[])
    })
  }

  #time(page: Page): Question {
    return {
      statement: 'time',
      take: (rows: readonly { now: number }[]) => {
        page.now = this.#clock?.now() ?? (rows[0] as { now: number }).now
      },
    }
  }
}

/**
 * Without these, a page of the links of a parent took as long as it has children. Not said in a transaction of a caller's,
 * whose own statements come behind ours.
 */
const planning = planner.map((setting) => `SET LOCAL ${setting}`)
const beginLook = ['BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', ...planning]

function number(page: Page): Question {
  return { statement: 'number', take: (rows: readonly unknown[]) => page.putSheet('number', rows[0]) }
}

/** Who only looks what would happen takes none away from others. */
function pretendPositions({ needs, positions }: Page): void {
  for (; needs.positions > 0; needs.positions--) positions.push(beyondAll + positions.length)
}

const beyondAll = 2 ** 52

function arrivals(page: Page): Question {
  return {
    statement: 'arrivals',
    values: [arrivalsAtOnce],
    take: (rows: readonly Arrival[]) => {
      page.arrivals = rows
    },
  }
}

/** What callers have committed since comes first. Their transactions are over: nothing can be refused any more. */
function afterArrivals<T>(verb: Verb<T>): Verb<T> {
  return (tables, now) => {
    tables.each(tables.page.arrivals, ({ jobs }) =>
      insertFromHandler(tables, JSON.parse(jobs) as NewJob[], undefined, now),
    )
    return verb(tables, now)
  }
}

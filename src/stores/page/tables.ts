import type { Clock } from '../../core/clock.js'
import type { FinalState, LogLine, NewJob } from '../../core/job.js'
import type { JobQuery, LeasedJob, Signal } from '../../core/store.js'
import { TrafficControl } from '../../core/traffic/control.js'
import { Holders } from '../ledger/dedupe.js'
import type { Entry } from '../ledger/entry.js'
import { Guards } from '../ledger/guard.js'
import { Schedules } from '../ledger/schedule.js'
import type { Ranked } from '../ledger/shelf.js'
import { byTime, inLine, Mailbox } from '../ledger/signal.js'
import { Signals } from '../ledger/subscribe.js'
import { Surplus } from '../ledger/surplus.js'
import { type Doomed, type Selection, type ShelvedState, Tables } from '../ledger/tables.js'
import type { Tokens } from '../ledger/token.js'
import { type ParkingGate, Places, type Traffic, type TrafficLine } from '../ledger/traffic.js'
import { Waiters, waiter } from '../ledger/waiting.js'
import type { Lease } from '../ledger/worker.js'
import { PagedBook } from './book.js'
import { PagedCauses } from './causes.js'
import { guardCodec, holderCodec, mailCodec, scheduleCodec } from './codecs.js'
import { type HeadRow, PagedHeads } from './heads.js'
import { type JobRow, stateNumbers } from './job-row.js'
import { PagedJobs } from './jobs.js'
import { type PagedKind, PagedKinds, type QueueRow } from './kinds.js'
import { PagedLinks } from './links.js'
import { Missing } from './needs.js'
import type { Page } from './page.js'
import { PagedPlaces } from './places.js'
import { PagedLines, PagedShelf } from './shelf.js'
import { PagedSteps } from './steps.js'
import { PagedWorkers } from './workers.js'

/** What a try starts from, besides what was read. */
export interface TryOptions {
  /** Jobs that are likely to be asked for at once. */
  readonly count: number
  readonly renewsByTaking: boolean
  /** Whether limits may have been lent to jobs; see stores/redis/page/loans.ts. */
  readonly lends?: boolean
  readonly tokens: Tokens
  readonly surplus: Map<FinalState, Ranked>
}

/** The tables of one try of a verb: what was read, and what the try makes of it. */
export class PagedTables extends Tables {
  readonly page: Page
  readonly signals = new Signals()
  /** What there is to tell when it is done. */
  readonly news: Signal[] = []
  readonly jobs: PagedJobs
  readonly heads: PagedHeads
  readonly kinds: PagedKinds
  readonly workers: PagedWorkers
  readonly causes = new PagedCauses()
  readonly books: PagedPlaces
  readonly places: Places
  readonly traffic: Traffic
  readonly shelves: Readonly<Record<ShelvedState, PagedShelf<Entry>>>
  readonly doomed: Doomed
  readonly surplus: Surplus
  readonly holders: Holders
  readonly guards: Guards
  readonly schedules: Schedules
  readonly mailbox: Mailbox
  readonly waiters: Waiters
  readonly records = {
    holder: undefined as unknown as PagedBook<unknown>,
    guard: undefined as unknown as PagedBook<unknown>,
    schedule: undefined as unknown as PagedBook<unknown>,
    mail: undefined as unknown as PagedBook<unknown>,
  }
  /** What the server ends by itself, in the words of its engine; see counted.ts. */
  ended: unknown
  readonly logs: { readonly seq: number; readonly lines: readonly LogLine[] }[] = []
  readonly #tokens: Tokens
  #num: number | undefined
  #positions = 0

  constructor(
    page: Page,
    clock: Clock,
    { count, renewsByTaking, lends = false, tokens, surplus }: TryOptions,
  ) {
    super(clock)
    this.page = page
    this.#tokens = tokens
    this.signals.subscribe((signal) => this.news.push(signal))
    const seq = (row: unknown) => (row as { seq: number }).seq
    const jobs = { item: (row: unknown) => this.jobs.ofRow(row as JobRow), seq }
    const nextNum = () => this.nextNum()
    this.books = new PagedPlaces(page, {
      nextNum,
      jobs: { item: (row: unknown) => this.#ofHead(row as HeadRow), seq },
      count,
      queueName: (num) => queueRow(page, (row) => row.num === num).name,
      queueNum: (name) => queueRow(page, (row) => row.name === name).num,
      queuesOf: (job) => this.kinds.queuesOf(job),
      touched: (queue) => {
        if (lends) page.row('loan', queue)
      },
    })
    this.kinds = new PagedKinds(page, {
      line: lines(
        (queue, lane) => new PagedShelf(page, { shelf: 'line', scope: [queue, lane], ...jobs, count }),
      ),
      trafficLines: (queue, lane) => this.books.linesOf(queue, lane),
    })
    this.heads = new PagedHeads(this.kinds, this.books, tokens)
    this.workers = new PagedWorkers(page, (id) => this.jobs.get(id), renewsByTaking)
    const { kinds, books: places, workers, heads } = this
    this.jobs = new PagedJobs(page, { kinds, places, workers, heads })
    this.places = new Places(this.books, this.kinds, this.signals)
    this.traffic = new TrafficControl<Entry, TrafficLine, ParkingGate>(this.places)
    const shelf = (state: ShelvedState) =>
      new PagedShelf(page, { shelf: 'state', scope: [stateNumbers[state]], ...jobs })
    this.shelves = {
      scheduled: shelf('scheduled'),
      retrying: shelf('retrying'),
      blocked: shelf('blocked'),
      completed: shelf('completed'),
      dead: shelf('dead'),
      cancelled: shelf('cancelled'),
    }
    this.doomed = new PagedDoomed(page, (id) => this.jobs.get(id))
    this.surplus = new Surplus(surplus)
    const n = (row: unknown) => (row as { n: number }).n
    const holders = new PagedBook(page, holderCodec)
    const byRank = { shelf: 'holder', scope: [], seq: n, item: (row: unknown) => holders.ofRow(row) }
    this.holders = new Holders(holders, new PagedShelf(page, byRank), nextNum)
    const guards = new PagedBook(page, guardCodec)
    const byEnd = { shelf: 'guard', scope: [], seq: n, item: (row: unknown) => guards.ofRow(row) }
    this.guards = new Guards(guards, new PagedShelf(page, byEnd), nextNum)
    const schedules = new PagedBook(page, scheduleCodec)
    const looks = { shelf: 'look', scope: [], seq: n, item: (row: unknown) => schedules.ofRow(row).look }
    const told = { shelf: 'told', scope: [], seq: n, item: (row: unknown) => schedules.ofRow(row).told }
    this.schedules = new Schedules(
      schedules,
      new PagedShelf(page, looks),
      new PagedShelf(page, told),
      nextNum,
    )
    const mail = new PagedBook(page, mailCodec)
    const posted = { seq: n, item: (row: unknown) => inLine(mail.ofRow(row)) }
    this.mailbox = new Mailbox({
      byId: mail,
      lines: new PagedLines(page, 'mailLine', posted),
      byTime: new PagedShelf(page, {
        shelf: 'mailTime',
        scope: [],
        seq: n,
        item: (row) => byTime(mail.ofRow(row)),
      }),
      spreading: new PagedShelf(page, { shelf: 'spreading', scope: [], ...posted }),
      nextSeq: nextNum,
    })
    this.waiters = new Waiters(
      new PagedLines(page, 'waiter', { seq: n, item: (row) => waiter(this.jobs.ofRow(row as JobRow)) }),
      nextNum,
    )
    this.records = {
      holder: holders as PagedBook<unknown>,
      guard: guards as PagedBook<unknown>,
      schedule: schedules as PagedBook<unknown>,
      mail: mail as PagedBook<unknown>,
    }
  }

  /** Goes on with the others when one misses something, so that all that they miss is read at once. */
  override each<T>(items: Iterable<T>, work: (item: T) => void): void {
    const { needs } = this.page
    for (const item of items) {
      try {
        work(item)
      } catch (error) {
        // After a miss nothing is as it should be, errors among it.
        if (needs.isEmpty) throw error
      }
    }
    if (!needs.isEmpty) throw new Missing()
  }

  needRoom(): void {}

  /** Tells its gates, so that they can be told of its end without a look at it; see counted.ts. */
  override tokenOf(entry: Entry, lease: Lease): string {
    const head = this.heads.tokenOf(entry)
    if (head !== undefined) return head
    const { job, seq, kind } = entry
    const { group, key } = job.traffic ?? {}
    const gates: number[] = []
    if (group !== undefined) gates.push(this.places.gate({ of: 'group', queue: job.queue, name: group }).num)
    if (key !== undefined) gates.push(this.places.gate({ of: 'key', job: job.name, name: key }).num)
    return this.#tokens.make(job.id, seq, (kind as PagedKind).num, lease.token, gates.join(':'))
  }

  /** Whether a worker was given jobs whose ends are not just counted. `isMore`: to its engine. */
  hasTakenSpecial(worker: string, isMore: (job: NewJob) => boolean): boolean {
    const isSpecial = (entry: Entry) =>
      entry.job.family !== undefined || this.jobs.isSpecial(entry) || isMore(entry.job)
    return (
      this.workers
        .get(worker)
        ?.taken()
        .some((entry) => !this.heads.has(entry.seq) && isSpecial(entry)) ?? false
    )
  }

  /** One that waits: no more than its place, unless more of it counts. */
  #ofHead(row: HeadRow): Entry {
    const known = this.jobs.at(row.seq)
    if (known !== undefined) return known
    const entire = this.page.entire.get(row.seq) as JobRow | undefined
    return entire === undefined ? this.heads.ofRow(row) : this.jobs.ofRow(entire)
  }

  override claimOf({ id, token }: LeasedJob): string | undefined {
    return this.#tokens.read(id, token)?.claim
  }

  nextSeq(): number {
    const next = this.page.positions[this.#positions]
    if (next === undefined) {
      this.page.needs.positions++
      throw new Missing()
    }
    this.#positions++
    return next
  }

  nextNum(): number {
    this.#num = (this.#num ?? this.page.sheet<{ last: number }>('number').last) + 1
    return this.#num
  }

  /** The last number that was given away, if any was. */
  get lastNum(): number | undefined {
    return this.#num
  }

  countOf(state: FinalState): number {
    return this.kinds.countOf(state)
  }

  select(query: JobQuery): Selection {
    const { ids, cursor } = this.page.row<{ ids: readonly string[]; cursor: string | undefined }>(
      'select',
      JSON.stringify(query),
    ) as { ids: readonly string[]; cursor: string | undefined }
    const entries: Entry[] = []
    this.each(ids, (id) => {
      const entry = this.jobs.get(id)
      if (entry !== undefined) entries.push(entry)
    })
    return { entries, cursor }
  }

  addLogs(entry: Entry, lines: readonly LogLine[]): void {
    this.logs.push({ seq: entry.seq, lines })
  }

  newSteps({ seq }: Entry): PagedSteps {
    return new PagedSteps(this.page, seq, true)
  }

  newLinks({ seq, job }: Entry): PagedLinks {
    return new PagedLinks(this.page, { seq, id: job.id }, undefined)
  }

  /** The same without its parent, for whoever only reads them. */
  linksOf(id: string): PagedLinks | undefined {
    const place = this.placeOf(id)
    return place && new PagedLinks(this.page, place, { size: 0, fanned: 0 })
  }

  placeOf(id: string): { readonly id: string; readonly seq: number } | undefined {
    const row = this.page.row<{ seq: number }>('place', id)
    return row === null ? undefined : { id, seq: row.seq }
  }

  keysOfRunning(): ReadonlySet<string> {
    return this.page.sheet<ReadonlySet<string>>('keysOfRunning')
  }
}

class PagedDoomed implements Doomed {
  readonly #page: Page
  readonly #find: (id: string) => Entry | undefined
  readonly #added = new Set<Entry>()
  readonly #removed = new Set<Entry>()

  constructor(page: Page, find: (id: string) => Entry | undefined) {
    this.#page = page
    this.#find = find
  }

  add(entry: Entry): void {
    this.#removed.delete(entry)
    this.#added.add(entry)
  }

  delete(entry: Entry): void {
    this.#added.delete(entry)
    this.#removed.add(entry)
    if (entry.story?.parenthood !== undefined) entry.story.parenthood.doomedFrom = undefined
  }

  *[Symbol.iterator](): Generator<Entry, void> {
    for (const id of this.#page.sheet<readonly string[]>('doomed')) {
      const entry = this.#find(id)
      if (entry !== undefined && !this.#removed.has(entry) && !this.#added.has(entry)) yield entry
    }
    yield* this.#added
  }
}

function queueRow(page: Page, is: (row: QueueRow) => boolean): QueueRow {
  return page.sheet<readonly QueueRow[]>('queues').find(is) as QueueRow
}

/** One shelf for each queue and lane. */
function lines(make: (queue: number, lane: number) => PagedShelf<Entry>) {
  const known = new Map<string, PagedShelf<Entry>>()
  return (queue: number, lane: number): PagedShelf<Entry> => {
    const name = `${queue} ${lane}`
    const line = known.get(name) ?? make(queue, lane)
    known.set(name, line)
    return line
  }
}

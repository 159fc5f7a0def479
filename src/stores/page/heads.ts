import type { ClaimedJob, NewJob } from '../../core/job.js'
import { Entry, storyOf } from '../ledger/entry.js'
import type { Tokens } from '../ledger/token.js'
import { ParkingGate, type Place } from '../ledger/traffic.js'
import type { Lease } from '../ledger/worker.js'
import type { PagedKind, PagedKinds } from './kinds.js'
import type { PagedPlaces } from './places.js'

/** Of a job that waits: all that traffic control has to know of it. */
export interface HeadRow {
  readonly seq: number
  readonly rank: number
  readonly kind: number
  readonly place: number
  /** Whether its definition has limits, and its gates, by colons. */
  readonly how: string
}

/** A job of which no more is known than its place: it can be started, parked or moved to another line, and no more. */
class Head extends Entry {
  readonly row: HeadRow
  /** Numbers of its gates, as its token is to tell them. */
  readonly note: string

  constructor(row: HeadRow, note: string, job: NewJob, kind: PagedKind) {
    super(row.seq, job, kind, 0)
    this.row = row
    this.note = note
    this.rank = row.rank
  }
}

/** One that is to wait elsewhere. */
interface MovedHead {
  readonly row: HeadRow
  readonly place: number
  readonly rank: number
}

/** What a worker has to know of jobs that were claimed by their places, as the last message told it. */
export interface ToldJobs {
  readonly seqs: readonly number[]
  id(i: number): string
  /** Writes it into a job that has all the rest. */
  tell(i: number, to: ClaimedJob, token: string): void
}

/** What heads have in common whose gates are the same. */
interface Alike {
  readonly job: NewJob
  readonly gates: readonly ParkingGate[] | undefined
  readonly note: string
}

/** Jobs that are claimed by their places alone; what the worker has to know of them the last message tells. */
export class PagedHeads {
  readonly #kinds: PagedKinds
  readonly #places: PagedPlaces
  readonly #tokens: Tokens
  readonly #bySeq = new Map<number, Head>()
  readonly #alike = new Map<string, Alike>()
  /** As they were claimed. */
  readonly #claimed: Head[] = []
  #told: ToldJobs | undefined

  constructor(kinds: PagedKinds, places: PagedPlaces, tokens: Tokens) {
    this.#kinds = kinds
    this.#places = places
    this.#tokens = tokens
  }

  has(seq: number): boolean {
    return this.#bySeq.has(seq)
  }

  ofRow(row: HeadRow): Entry {
    const known = this.#bySeq.get(row.seq)
    if (known !== undefined) return known
    const kind = this.#kinds.byNum(row.kind)
    const { job, gates, note } = this.#alikeOf(row, kind)
    const head = new Head(row, note, job, kind)
    const story = storyOf(head)
    story.gates = gates
    story.place = this.#places.place(row.place)
    this.#bySeq.set(row.seq, head)
    return head
  }

  #alikeOf({ kind: num, how }: HeadRow, kind: PagedKind): Alike {
    const name = `${num} ${how}`
    let alike = this.#alike.get(name)
    if (alike === undefined) {
      const note = how.slice(2)
      const gates =
        note === '' ? [] : note.split(':').map((gate) => this.#places.gateAt(Number(gate)) as ParkingGate)
      alike = { job: stub(kind, how[0] === '1', gates), gates: gates.length === 0 ? undefined : gates, note }
      this.#alike.set(name, alike)
    }
    return alike
  }

  /** What a worker has to present for one of them: not known before its id is told. */
  tokenOf(entry: Entry): string | undefined {
    if (!(entry instanceof Head)) return undefined
    this.#claimed.push(entry)
    return ''
  }

  /** `lease`: of all that were started, for a try is one claim. */
  changes() {
    const started: HeadRow[] = []
    let lease: Lease | undefined
    const moved: MovedHead[] = []
    for (const { row, rank, state, story, lease: own } of this.#bySeq.values()) {
      if (state === 'running') {
        started.push(row)
        lease = own
      } else {
        const place = placeNumber(story?.place as Place)
        if (place !== row.place || rank !== row.rank) moved.push({ row, place, rank })
      }
    }
    return { started, lease, moved }
  }

  /** What the last message told of them. */
  hear(told: ToldJobs): void {
    this.#told = told
  }

  /** Gives those that were started what they lack. */
  complete(claimed: readonly ClaimedJob[], claim: string): void {
    const jobs = this.#told
    if (jobs === undefined) return
    const at = new Map(jobs.seqs.map((seq, i) => [seq, i]))
    const heads = this.#claimed.values()
    for (const job of claimed) {
      if (job.token !== '') continue
      const head = heads.next().value as Head
      const i = at.get(head.seq) as number
      const kind = (head.kind as PagedKind).num
      jobs.tell(i, job, this.#tokens.make(jobs.id(i), head.seq, kind, claim, head.note))
    }
  }
}

export function placeNumber(place: Place): number {
  return place instanceof ParkingGate ? -place.num : place.num
}

function stub({ name, queue, lane }: PagedKind, gated: boolean, gates: readonly ParkingGate[]): NewJob {
  const nameOf = (scope: 'group' | 'key') => gates.find(({ ref }) => ref.of === scope)?.ref.name
  return {
    id: '',
    name,
    queue: queue.name,
    lane,
    input: '',
    delay: 0,
    runAt: undefined,
    maxAttempts: 0,
    maxCrashes: 0,
    overrides: undefined,
    tags: undefined,
    search: undefined,
    metadata: undefined,
    traffic: { gated, group: nameOf('group'), key: nameOf('key') },
    dedupe: undefined,
    family: undefined,
    guard: undefined,
    unwinds: undefined,
  }
}

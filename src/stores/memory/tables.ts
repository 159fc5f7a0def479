import { bounds } from '../../core/bounds.js'
import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { FinalState, LogLine } from '../../core/job.js'
import type { JobQuery } from '../../core/store.js'
import { TrafficControl } from '../../core/traffic/control.js'
import { type Holder, Holders, holderKey, ruleOfNewest } from '../ledger/dedupe.js'
import { type Entry, storyOf } from '../ledger/entry.js'
import { Guards, type KeptGuard } from '../ledger/guard.js'
import { type KeptSchedule, type ScheduleEntry, Schedules } from '../ledger/schedule.js'
import { type Mail, Mailbox, type OrderedMail } from '../ledger/signal.js'
import { Sorted } from '../ledger/sorted.js'
import { Signals } from '../ledger/subscribe.js'
import { Surplus } from '../ledger/surplus.js'
import { type Selection, type ShelvedState, Tables } from '../ledger/tables.js'
import { type ParkingGate, Places, type Traffic, type TrafficLine } from '../ledger/traffic.js'
import { type Waiter, Waiters } from '../ledger/waiting.js'
import { MemoryCauses } from './causes.js'
import { MemoryKinds } from './kind.js'
import { MemoryLines } from './lines.js'
import { MemoryLinks } from './links.js'
import { MemoryPlaces } from './places.js'
import { select } from './select.js'
import { MemorySteps } from './steps.js'
import { MemoryWorkers } from './worker.js'

/** V8 gives a Map up to 2^24 slots, and one with more than half of them in use may fail to grow. */
const mostJobs = 2 ** 23

/** All there is, in this process. */
export class MemoryTables extends Tables {
  readonly signals = new Signals()
  readonly jobs = new Map<string, Entry>()
  readonly kinds = new MemoryKinds()
  readonly workers = new MemoryWorkers()
  readonly causes = new MemoryCauses()
  readonly surplus = new Surplus()
  readonly books = new MemoryPlaces(this.kinds)
  readonly places = new Places(this.books, this.kinds, this.signals)
  readonly traffic: Traffic = new TrafficControl<Entry, TrafficLine, ParkingGate>(this.places)
  readonly shelves: Readonly<Record<ShelvedState, Sorted<Entry>>> = {
    scheduled: new Sorted(),
    retrying: new Sorted(),
    blocked: new Sorted(),
    completed: new Sorted(),
    dead: new Sorted(),
    cancelled: new Sorted(),
  }
  readonly doomed = new Set<Entry>()
  /** By name. */
  readonly scheduled = new Map<string, KeptSchedule>()
  readonly holders
  readonly guards
  readonly schedules
  readonly mailbox
  readonly waiters
  #seq = 0

  constructor(clock: Clock) {
    super(clock)
    const nextSeq = () => this.nextSeq()
    this.holders = new Holders(new Map(), new Sorted<Holder>(), nextSeq)
    this.guards = new Guards(new Map(), new Sorted<KeptGuard>(), nextSeq)
    this.schedules = new Schedules(
      this.scheduled,
      new Sorted<ScheduleEntry>(),
      new Sorted<ScheduleEntry>(),
      nextSeq,
    )
    this.mailbox = new Mailbox({
      byId: new Map<string, Mail>(),
      lines: new MemoryLines<OrderedMail>(),
      byTime: new Sorted<OrderedMail>(),
      spreading: new Sorted<OrderedMail>(),
      nextSeq,
    })
    this.waiters = new Waiters(new MemoryLines<Waiter>(), nextSeq)
  }

  needRoom(count: number): void {
    if (this.jobs.size + count > mostJobs) {
      throw new MillraceError(
        'STORE_FULL',
        `the memory store holds ${this.jobs.size} jobs and cannot take ${count} more; ` +
          'keep finished ones for a shorter time, or use another engine',
        { field: 'jobs', value: this.jobs.size + count, limit: mostJobs },
      )
    }
  }

  nextSeq(): number {
    return ++this.#seq
  }

  countOf(state: FinalState): number {
    return this.shelves[state].size
  }

  select(query: JobQuery): Selection {
    return select(this, query)
  }

  /** Lets the oldest lines go. */
  addLogs(entry: Entry, lines: readonly LogLine[]): void {
    const story = storyOf(entry)
    story.logs = [...story.logs, ...lines.slice(-bounds.logLines)].slice(-bounds.logLines)
  }

  newSteps(): MemorySteps {
    return new MemorySteps()
  }

  newLinks(): MemoryLinks {
    return new MemoryLinks()
  }

  keysOfRunning(): ReadonlySet<string> {
    const keys = new Set<string>()
    for (const worker of this.workers.all()) {
      for (const { job } of worker.held()) {
        const rule = ruleOfNewest(job)
        if (rule !== undefined) keys.add(holderKey(job.name, rule.key))
      }
    }
    return keys
  }
}

/**
 * Between a store and its log: writes down who had which part and what became of its batches, and is where the process
 * dies. It changes nothing that passes through.
 */
import type { AdvanceRequest, EventLog, HoldRequest, LogTransaction, RebuildChange } from 'millrace/events'
import type { Doom } from '../fail-points.js'
import type { Journal } from '../journal.js'
import type { Random } from '../random.js'
import type { NotedEvent } from './book.js'
import type { Around } from './definitions.js'
import type { EventsFailPoint } from './fail-points.js'
import type { Advanced, EventsEvent, SeenEvent } from './history.js'

export interface Sabotage {
  readonly doom: Doom<EventsFailPoint>
  /** Ends the process after so many milliseconds, whatever it is doing. */
  readonly kill: (delayMs: number) => void
  readonly random: Random
}

/** What a transaction of the log's own has in it. */
interface Batch {
  readonly advances: AdvanceRequest[]
  readonly seen: SeenEvent[]
  change: RebuildChange['do'] | undefined
  drops: boolean
}

/** A commit takes so long, more or less. */
const commitMs = 4

export class Recorder implements Around {
  readonly doom: Doom<EventsFailPoint>
  readonly #journal: Journal<EventsEvent>
  readonly #sabotage: Sabotage
  /** By what handlers write with. */
  readonly #batches = new Map<unknown, Batch>()
  /** Under the name of a reader, if it is to tell what it has seen. */
  readonly #reader: string | undefined
  #isAtWork = false
  /** Transactions of the log's own that are open, or about to be. */
  #open = 0

  constructor(journal: Journal<EventsEvent>, sabotage: Sabotage, reader?: string) {
    this.doom = sabotage.doom
    this.#journal = journal
    this.#sabotage = sabotage
    this.#reader = reader
  }

  saw(tx: unknown, { position, data }: NotedEvent): void {
    this.#batches.get(tx)?.seen.push([position, data.key, Date.now()])
  }

  drops(tx: unknown): void {
    const batch = this.#batches.get(tx)
    if (batch !== undefined) batch.drops = true
  }

  over(log: EventLog): EventLog {
    return withVerbs(log, {
      hold: (request) => this.#hold(log, request),
      advance: (request, tx) => this.#advance(log, request, tx),
      begin: () => this.#begin(log),
      rebuild: (change, tx) => this.#rebuild(log, change, tx),
      projections: async () => {
        const records = await log.projections()
        this.#journal.write({ e: 'looked' })
        return records
      },
    })
  }

  async #hold(log: EventLog, request: HoldRequest) {
    if (request.renewal) this.doom.at('renewing')
    const asked = Date.now()
    const held = await log.hold(request)
    if (held === undefined) return undefined
    const { position } = held
    this.#isAtWork = true
    this.#journal.write({ e: 'held', asked, part: partOf(request), token: request.token, position })
    this.doom.at(request.renewal ? 'renewed' : 'taken')
    return held
  }

  async #advance(log: EventLog, request: AdvanceRequest, tx: unknown): Promise<'advanced' | 'lost'> {
    const { token, position } = request
    this.doom.at('handled')
    if (tx !== undefined) this.#freezeAt('freeze-handled')
    this.#journal.write({ e: 'advance-try', part: partOf(request), token, position })
    const batch = this.#batches.get(tx)
    try {
      const result = await log.advance(request, tx)
      if (batch === undefined || result === 'lost') this.#conclude(request, result)
      else {
        batch.advances.push(request)
        this.doom.at('advanced')
      }
      if (batch === undefined) this.doom.at('committed')
      return result
    } catch (error) {
      this.#conclude(request, 'failed')
      throw error
    }
  }

  async #rebuild(log: EventLog, change: RebuildChange, tx: unknown) {
    if (change.do === 'swap') this.doom.at('swapping')
    const record = await log.rebuild(change, tx)
    const batch = this.#batches.get(tx)
    if (batch !== undefined) batch.change = change.do
    return record
  }

  async #begin(log: EventLog): Promise<LogTransaction> {
    // A file is nobody's then.
    if (this.#open === 0) this.#freezeAt('freeze-read')
    this.#open++
    const inner = await log.begin().catch((error: unknown) => {
      this.#open--
      throw error
    })
    const { tx } = inner
    let isOpen = true
    const over = () => {
      if (isOpen) this.#open--
      isOpen = false
    }
    const batch: Batch = { advances: [], seen: [], change: undefined, drops: false }
    this.#batches.set(tx, batch)
    return {
      tx,
      commit: () => this.#commit(inner, batch).finally(over),
      rollback: async () => {
        if (isOpen) this.#batches.delete(tx)
        await inner.rollback().finally(over)
      },
    }
  }

  async #commit(inner: LogTransaction, batch: Batch): Promise<void> {
    this.#batches.delete(inner.tx)
    const { doom, kill, random } = this.#sabotage
    const sent = batch.change === 'swap' ? 'swap-sent' : 'commit-sent'
    if (batch.advances.length > 0 && doom.strikes(sent)) {
      doom.announce(sent)
      kill(random.between(0, commitMs))
    }
    try {
      await inner.commit()
    } catch (error) {
      for (const request of batch.advances) this.#conclude(request, 'failed')
      throw error
    }
    if (this.#reader !== undefined && batch.seen.length > 0) this.#tellSeen(this.#reader, batch.seen)
    for (const request of batch.advances) this.#conclude(request, 'advanced')
    if (batch.change === 'begin') doom.at('begun')
    else if (batch.change === 'swap') doom.at('swapped')
    else if (batch.drops) doom.at('dropped')
    else if (batch.advances.length > 0) doom.at('committed')
  }

  /** When they were committed, which is when others can see what was made of them. */
  #tellSeen(reader: string, events: readonly SeenEvent[]): void {
    const now = Date.now()
    this.#journal.write({ e: 'seen', reader, events: events.map(([position, key]) => [position, key, now]) })
  }

  #conclude(request: AdvanceRequest, result: Advanced): void {
    const { token, position, done } = request
    this.#journal.write({ e: 'advance-result', part: partOf(request), token, position, done, result })
  }

  #freezeAt(point: 'freeze-read' | 'freeze-handled'): void {
    if (!this.#isAtWork || !this.doom.strikes(point)) return
    this.#journal.write({ e: 'frozen' })
    process.kill(process.pid, 'SIGSTOP')
  }
}

function partOf({ name, generation, part }: Pick<HoldRequest, 'name' | 'generation' | 'part'>): string {
  return `${name} ${generation} ${part}`
}

/** With some verbs of its own. */
function withVerbs(log: EventLog, verbs: Partial<EventLog>): EventLog {
  return new Proxy(log, {
    get: (target, key) => {
      const value = (verbs as Record<PropertyKey, unknown>)[key] ?? Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

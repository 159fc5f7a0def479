import { bounds } from '../../core/bounds.js'
import type { KeptSignal, NewSignal } from '../../core/step.js'
import type { SignalResult } from '../../core/store.js'
import type { Entry } from './entry.js'
import { type Book, type Lines, type Shelf, start } from './shelf.js'
import type { Tables } from './tables.js'
import { wakeBySignal } from './waiting.js'

export interface Mail extends KeptSignal {
  readonly key: string
  readonly id: string
  readonly expiresAt: number
  /** More jobs waited for it than one call wakes. */
  spreading: boolean
}

/** A signal and its place in one of the orders. */
export interface OrderedMail {
  readonly rank: number
  readonly seq: number
  readonly mail: Mail
}

/** Where an engine keeps signals. */
export interface MailBooks {
  /** By key and id. */
  readonly byId: Book<Mail>
  /** Of one key, by number. */
  readonly lines: Lines<OrderedMail>
  /** By when they are forgotten. */
  readonly byTime: Shelf<OrderedMail>
  /** Those that have more jobs to wake, by number. */
  readonly spreading: Shelf<OrderedMail>
  nextSeq(): number
}

/** Signals that are kept. */
export class Mailbox {
  readonly #books: MailBooks

  constructor(books: MailBooks) {
    this.#books = books
  }

  /** Undefined for one that was sent before. */
  post({ key, id, payload, retain }: NewSignal, now: number): Mail | undefined {
    const books = this.#books
    if (books.byId.get(mailKey(key, id)) !== undefined) return undefined
    const mail = { n: books.nextSeq(), key, id, payload, expiresAt: now + retain, spreading: false }
    books.byId.set(mailKey(key, id), mail)
    books.lines.add(key, inLine(mail))
    books.byTime.add(byTime(mail))
    return mail
  }

  /** The oldest after this number. */
  next(key: string, after: number, now: number): Mail | undefined {
    for (const { mail } of this.#books.lines.after(key, { rank: 0, seq: after }, 1))
      if (mail.expiresAt >= now || mail.spreading) return mail
    return undefined
  }

  /** Lets go of those whose time is over, a bounded number; returns how many. */
  forget(now: number, limit: number): number {
    const old: Mail[] = []
    for (const { rank, mail } of this.#books.byTime.after(start.rank, start.seq, limit)) {
      if (rank >= now || old.length === limit) break
      if (!mail.spreading) old.push(mail)
    }
    for (const mail of old) {
      this.#books.byTime.delete(byTime(mail))
      this.#books.lines.delete(mail.key, inLine(mail))
      this.#books.byId.delete(mailKey(mail.key, mail.id))
    }
    return old.length
  }

  /** Whether it has more jobs to wake. */
  spread(mail: Mail, goesOn: boolean): void {
    if (mail.spreading === goesOn) return
    mail.spreading = goesOn
    if (goesOn) this.#books.spreading.add(inLine(mail))
    else this.#books.spreading.delete(inLine(mail))
  }

  spreading(limit: number): Mail[] {
    const mails: Mail[] = []
    for (const { mail } of this.#books.spreading.after(start.rank, start.seq, limit)) {
      if (mails.length === limit) break
      mails.push(mail)
    }
    return mails
  }
}

function mailKey(key: string, id: string): string {
  return `${key}\n${id}`
}

export function inLine(mail: Mail): OrderedMail {
  return { rank: 0, seq: mail.n, mail }
}

export function byTime(mail: Mail): OrderedMail {
  return { rank: mail.expiresAt, seq: mail.n, mail }
}

export function signal(tables: Tables, signals: readonly NewSignal[], now: number): SignalResult[] {
  const results: SignalResult[] = []
  tables.each(signals, (given) => {
    const mail = tables.mailbox.post(given, now)
    if (mail === undefined) results.push({ status: 'duplicate', woken: 0 })
    else results.push({ status: 'sent', woken: wakeWaiting(tables, mail, bounds.batch, now) })
  })
  return results
}

/** Wakes more of the jobs that waited for a signal; returns how many. */
export function spread(tables: Tables, now: number, limit: number): number {
  let woken = 0
  for (const mail of tables.mailbox.spreading(limit)) {
    if (woken >= limit) break
    woken += wakeWaiting(tables, mail, limit - woken, now)
  }
  return woken
}

function wakeWaiting(tables: Tables, mail: Mail, limit: number, now: number): number {
  const entries = waitingFor(tables, mail, limit)
  // It is there for them until the last one has it, though its time may be over.
  if (entries.length > 0) tables.mailbox.spread(mail, true)
  let woken = 0
  tables.each(entries, (entry) => {
    if (wakeBySignal(tables, entry, now)) woken++
  })
  tables.mailbox.spread(mail, entries.length === limit)
  return woken
}

function waitingFor({ waiters }: Tables, { key, n }: Mail, limit: number): Entry[] {
  const entries: Entry[] = []
  for (const entry of waiters.of(key, limit)) {
    if (entries.length === limit) break
    if (entry.story?.waits?.some((wait) => wait.key === key && wait.after < n)) entries.push(entry)
  }
  return entries
}

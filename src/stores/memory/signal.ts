import { bounds } from '../../core/bounds.js'
import type { KeptSignal, NewSignal } from '../../core/step.js'
import type { SignalResult } from '../../core/store.js'
import type { Entry } from './entry.js'
import { Sorted } from './sorted.js'
import type { Tables } from './tables.js'
import { wakeBySignal } from './waiting.js'

interface Mail extends KeptSignal {
  readonly key: string
  readonly id: string
  readonly expiresAt: number
  /** More jobs waited for it than one call wakes. */
  spreading: boolean
}

interface Ordered {
  readonly rank: number
  readonly seq: number
  readonly mail: Mail
}

/** The signals of one key, by id and by number. */
interface Box {
  readonly byId: Map<string, Mail>
  readonly line: Sorted<Ordered>
}

/** Signals that are kept. */
export class Mailbox {
  readonly #boxes = new Map<string, Box>()
  readonly #byTime = new Sorted<Ordered>()
  readonly spreading = new Set<Mail>()
  #count = 0

  /** Undefined for one that was sent before. */
  post({ key, id, payload, retain }: NewSignal, now: number): Mail | undefined {
    const box = this.#boxes.get(key) ?? { byId: new Map(), line: new Sorted() }
    if (box.byId.has(id)) return undefined
    this.#boxes.set(key, box)
    const mail = { n: ++this.#count, key, id, payload, expiresAt: now + retain, spreading: false }
    box.byId.set(id, mail)
    box.line.add({ rank: 0, seq: mail.n, mail })
    this.#byTime.add({ rank: mail.expiresAt, seq: mail.n, mail })
    return mail
  }

  /** The oldest after this number. */
  next(key: string, after: number, now: number): Mail | undefined {
    const box = this.#boxes.get(key)
    if (box === undefined) return undefined
    for (const { mail } of box.line.after(0, after)) if (mail.expiresAt >= now || mail.spreading) return mail
    return undefined
  }

  /** Lets go of those whose time is over, a bounded number; returns how many. */
  forget(now: number, limit: number): number {
    const old: Ordered[] = []
    for (const entry of this.#byTime.after(Number.NEGATIVE_INFINITY, 0)) {
      if (entry.rank >= now || old.length === limit) break
      if (!entry.mail.spreading) old.push(entry)
    }
    for (const entry of old) this.#delete(entry)
    return old.length
  }

  #delete(entry: Ordered): void {
    const { key, id, n } = entry.mail
    const box = this.#boxes.get(key) as Box
    this.#byTime.delete(entry)
    box.byId.delete(id)
    for (const place of box.line.after(0, n - 1)) {
      box.line.delete(place)
      break
    }
    if (box.byId.size === 0) this.#boxes.delete(key)
  }
}

export function signal(tables: Tables, signals: readonly NewSignal[], now: number): SignalResult[] {
  return signals.map((given) => {
    const mail = tables.mailbox.post(given, now)
    if (mail === undefined) return { status: 'duplicate', woken: 0 }
    return { status: 'sent', woken: wakeWaiting(tables, mail, bounds.batch, now) }
  })
}

/** Wakes more of the jobs that waited for a signal; returns how many. */
export function spread(tables: Tables, now: number, limit: number): number {
  let woken = 0
  for (const mail of [...tables.mailbox.spreading]) {
    if (woken >= limit) break
    woken += wakeWaiting(tables, mail, limit - woken, now)
  }
  return woken
}

function wakeWaiting(tables: Tables, mail: Mail, limit: number, now: number): number {
  const entries = waitingFor(tables, mail, limit)
  // It is there for them until the last one has it, though its time may be over.
  mail.spreading = true
  const { length } = entries.filter((entry) => wakeBySignal(tables, entry, now))
  mail.spreading = entries.length === limit
  if (mail.spreading) tables.mailbox.spreading.add(mail)
  else tables.mailbox.spreading.delete(mail)
  return length
}

function waitingFor({ waiters }: Tables, { key, n }: Mail, limit: number): Entry[] {
  const entries: Entry[] = []
  for (const entry of waiters.of(key)) {
    if (entries.length === limit) break
    if (entry.story?.waits?.some((wait) => wait.key === key && wait.after < n)) entries.push(entry)
  }
  return entries
}

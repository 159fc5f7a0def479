import { bounds } from '../../core/bounds.js'
import type { NewSignal } from '../../core/step.js'
import type { SignalResult } from '../../core/store.js'
import { signal as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import type { Waiting } from './waiting.js'

export interface SignalVerb {
  (signals: readonly NewSignal[]): SignalResult[]
  /** Reads only. */
  isSpreading(): boolean
  /** Wakes more of the jobs that waited for a signal; returns how many. */
  spread(now: number, limit: number): number
  hasExpired(now: number): boolean
  /** Lets go of those whose time is over, a bounded number; returns how many. */
  forget(now: number, limit: number): number
}

interface Sent {
  readonly n: number
  readonly key: string
}

/** Sends signals inside the current transaction. */
export function makeSignal({ db, clock }: Tables, waiting: Waiting): SignalVerb {
  const post = db.prepare<[string, string, string | null, number], number>(sql.post).pluck()
  const waitingFor = db.prepare<[string, number, number], number>(sql.waiting).pluck()
  const spreading = db.prepare<[number], Sent>(sql.spreading)
  const setSpreading = db.prepare(sql.setSpreading)
  const expired = db.prepare<[number, number], number>(sql.expired).pluck()
  const forgetOne = db.prepare(sql.forget)

  const signal = ((signals) => {
    const now = clock.now()
    return signals.map((given) => send(given, now))
  }) as SignalVerb
  signal.isSpreading = () => spreading.get(1) !== undefined
  signal.spread = spread
  signal.hasExpired = (now) => expired.get(now, 1) !== undefined
  signal.forget = (now, limit) => {
    const old = expired.all(now, limit)
    for (const n of old) forgetOne.run(n)
    return old.length
  }
  return signal

  function send({ key, id, payload, retain }: NewSignal, now: number): SignalResult {
    const n = post.get(key, id, payload ?? null, now + retain)
    if (n === undefined) return { status: 'duplicate', woken: 0 }
    return { status: 'sent', woken: wakeWaiting({ n, key }, false, bounds.batch, now) }
  }

  function spread(now: number, limit: number): number {
    let woken = 0
    for (const sent of spreading.all(limit)) {
      if (woken >= limit) break
      woken += wakeWaiting(sent, true, limit - woken, now)
    }
    return woken
  }

  function wakeWaiting({ n, key }: Sent, wasSpreading: boolean, limit: number, now: number): number {
    const seqs = waitingFor.all(key, n, limit)
    const isSpreading = seqs.length === limit
    const woken = [...new Set(seqs)].filter((seq) => waiting.wakeBySignal(seq, now)).length
    if (isSpreading !== wasSpreading) setSpreading.run(isSpreading ? 1 : 0, n)
    return woken
  }
}

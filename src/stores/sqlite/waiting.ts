import { answered, deliver, type KeptSignal, type SignalWait, type Wait } from '../../core/step.js'
import type { Pending } from './pending.js'
import { family as familySql, signal as signalSql, waiting as sql } from './sql.generated.js'
import type { Steps } from './steps.js'
import type { Tables } from './tables.js'

export interface Waiting {
  /** Where a job goes whose run waits: it is ready again at once when something of that is there already. */
  begin(seq: number, wait: Wait, now: number): 'blocked' | 'pending'
  /** Makes a blocked job ready, whatever the reason. */
  wake(seq: number, now: number): void
  /** Makes a blocked job ready if there is a signal for it. */
  wakeBySignal(seq: number, now: number): boolean
  /** The job is blocked no more. */
  forget(seq: number): void
}

export function makeWaiting(tables: Tables, steps: Steps, pending: Pending): Waiting {
  const { db, tally } = tables
  const add = db.prepare(sql.add)
  const waitsOf = db.prepare<[number], SignalWait>(sql.of)
  const forgetAll = db.prepare(sql.forget)
  const wakeOne = db.prepare<[number, number], number>(sql.wake).pluck()
  const hasChildren = db.prepare<[number]>(familySql.isWaiting)
  const isFanOpen = db.prepare<[number, string]>(familySql.isFanOpen)
  const next = db.prepare<[string, number, number], { n: number; payload: string | null }>(signalSql.next)

  return { begin, wake, wakeBySignal, forget }

  function begin(seq: number, wait: Wait, now: number): 'blocked' | 'pending' {
    const came = receive(seq, wait.signals, now)
    const over = steps.endOverdue(seq, now) || (wait.until ?? Number.POSITIVE_INFINITY) <= now
    const isFanOver = wait.fans.some((fan) => isFanOpen.get(seq, fan) === undefined)
    if (came || over || isFanOver || (wait.children && hasChildren.get(seq) === undefined)) return 'pending'
    for (const { step, key, after } of wait.signals) add.run(seq, step, key, after)
    return 'blocked'
  }

  /** Writes the signals that are kept for these waits as the memos of their steps; tells whether there were any. */
  function receive(seq: number, waits: readonly SignalWait[], now: number): boolean {
    const deliveries = deliver(waits, (key, after) => nextSignal(key, after, now))
    if (deliveries.length === 0) return false
    steps.write(
      seq,
      deliveries.map((delivery) => answered(delivery, now)),
    )
    return true
  }

  function nextSignal(key: string, after: number, now: number): KeptSignal | undefined {
    const row = next.get(key, after, now)
    return row === undefined ? undefined : { n: row.n, payload: row.payload ?? undefined }
  }

  function wakeBySignal(seq: number, now: number): boolean {
    const came = receive(seq, waitsOf.all(seq), now)
    if (came) wake(seq, now)
    return came
  }

  function wake(seq: number, now: number): void {
    steps.endOverdue(seq, now)
    forget(seq)
    const kind = wakeOne.get(now, seq)
    if (kind === undefined) return
    tally.move(kind, 'blocked', 'pending', 1)
    pending.enter(tables.kind(kind), seq, true)
  }

  function forget(seq: number): void {
    forgetAll.run(seq)
  }
}

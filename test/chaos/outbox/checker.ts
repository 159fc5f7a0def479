/**
 * The judge of an outbox: a pure function from what the processes wrote down, what the database has in the end and what has
 * arrived, to a verdict. I12: what belongs to an order has arrived if and only if its transaction committed; the order's
 * own row says whether it has. What arrived twice is counted (delivery is at least once). Order is judged by order.ts, what
 * relays may settle by claims.ts.
 */
import type { Kind } from 'millrace/outbox'
import type { Violation } from '../checker.js'
import { checkClaims } from './claims.js'
import { type Accuse, eventsOf, type OutboxEvidence, some } from './evidence.js'
import { nameOf } from './history.js'
import { checkOrder } from './order.js'
import { isPoison, type Order } from './orders.js'

export interface OutboxVerdict {
  /** Orders whose transaction was acknowledged, and whose was not but had committed. */
  readonly committed: number
  readonly doubtful: number
  /** Jobs and messages of orders that never arrived. */
  readonly lost: number
  /** Deliveries of what had arrived before. */
  readonly duplicates: Readonly<Record<Kind, number>>
  readonly rerun: number
  readonly setAside: number
  readonly staleAttempts: number
  readonly refusedStale: number
  readonly recoveries: readonly number[]
  readonly violations: readonly Violation[]
}

export function checkOutbox(evidence: OutboxEvidence): OutboxVerdict {
  const violations: Violation[] = []
  const accuse: Accuse = (invariant, text) => violations.push({ invariant, text })
  const orders = new Map(evidence.orders.map((order) => [order.id, order]))

  const transactions = checkTransactions(evidence, orders, accuse)
  const lost = checkArrived(evidence, accuse)
  checkUnexpected(evidence, orders, accuse)
  checkAside(evidence, accuse)
  const rerun = checkEffects(evidence, accuse)
  checkDrained(evidence, accuse)
  checkComplaints(evidence, accuse)
  for (const kind of kinds) checkOrder(kind, evidence, accuse)
  const claims = checkClaims(evidence, accuse)
  return {
    ...transactions,
    ...claims,
    lost,
    rerun,
    duplicates: { job: countRepeated(evidence, 'job'), message: countRepeated(evidence, 'message') },
    setAside: evidence.aside.length,
    violations,
  }
}

const kinds = ['job', 'message'] as const

/** The database has the last word on what committed, and may not contradict what it has said. */
function checkTransactions(
  { events }: OutboxEvidence,
  orders: ReadonlyMap<string, Order>,
  accuse: Accuse,
): { committed: number; doubtful: number } {
  const idsOf = (e: 'tried' | 'committed' | 'undone') =>
    new Set(eventsOf(events, e).flatMap(({ ids }) => ids))
  const [tried, committed, undone] = [idsOf('tried'), idsOf('committed'), idsOf('undone')]
  const missing = [...committed].filter((id) => !orders.has(id))
  if (missing.length > 0) accuse('I1', `${missing.length} committed orders are gone: ${some(missing)}`)
  const despite = [...orders.keys()].filter((id) => undone.has(id) || !tried.has(id))
  if (despite.length > 0)
    accuse('I2', `${despite.length} orders that were rolled back, or that nobody wrote: ${some(despite)}`)
  const doubtful = [...orders.keys()].filter((id) => !committed.has(id)).length
  return { committed: orders.size, doubtful }
}

function checkArrived({ orders, deliveries, jobs, events }: OutboxEvidence, accuse: Accuse): number {
  const messages = new Set(deliveries.filter(({ kind }) => kind === 'message').map(({ id }) => id))
  const states = new Map(jobs.map(({ id, state }) => [id, state]))
  const effects = new Set(eventsOf(events, 'effect').map(({ id }) => id))
  const wanted = (kind: Kind) => orders.filter(({ id }) => !isPoison(kind, id)).map(({ id }) => id)
  const noMessage = wanted('message').filter((id) => !messages.has(id))
  const noJob = wanted('job').filter((id) => !states.has(id))
  if (noMessage.length > 0) accuse('I12', `${noMessage.length} orders without a message: ${some(noMessage)}`)
  if (noJob.length > 0) accuse('I12', `${noJob.length} orders without a job: ${some(noJob)}`)
  const idle = wanted('job').filter(
    (id) => states.has(id) && !(states.get(id) === 'completed' && effects.has(id)),
  )
  if (idle.length > 0)
    accuse(
      'I12',
      `${idle.length} jobs of orders did not run: ${some(idle.map((id) => `${id} ${states.get(id)}`))}`,
    )
  return noMessage.length + noJob.length
}

/** Of a transaction that did not commit, nothing may be seen. */
function checkUnexpected(
  { deliveries, jobs, events, aside }: OutboxEvidence,
  orders: ReadonlyMap<string, Order>,
  accuse: Accuse,
): void {
  const seen = [
    ...deliveries.map(nameOf),
    ...jobs.map(({ id }) => `job ${id}`),
    ...eventsOf(events, 'effect').map(({ id }) => `effect ${id}`),
    ...aside.map((row) => `aside ${row.id}`),
  ]
  const orphans = [...new Set(seen)].filter((name) => !orders.has(name.slice(name.indexOf(' ') + 1)))
  if (orphans.length > 0) accuse('I12', `${orphans.length} arrived without an order: ${some(orphans)}`)
}

/** What is always refused is set aside, once, and nothing else is. */
function checkAside({ orders, aside, deliveries }: OutboxEvidence, accuse: Accuse): void {
  const poison = orders.flatMap(({ id }) =>
    kinds.filter((kind) => isPoison(kind, id)).map((kind) => nameOf({ kind, id })),
  )
  const found = aside.map(nameOf)
  const missing = poison.filter((name) => !found.includes(name))
  if (missing.length > 0) accuse('I12', `${missing.length} poison rows were not set aside: ${some(missing)}`)
  const wrong = found.filter((name, i) => !poison.includes(name) || found.indexOf(name) !== i)
  if (wrong.length > 0) accuse('I12', `${wrong.length} rows were set aside wrongly or twice: ${some(wrong)}`)
  const taken = deliveries.map(nameOf).filter((name) => poison.includes(name))
  if (taken.length > 0) accuse('harness', `poison was delivered: ${some(taken)}`)
}

/** I3. The target drops what comes twice, so each job runs once. */
function checkEffects({ events, mayRerun }: OutboxEvidence, accuse: Accuse): number {
  const ids = eventsOf(events, 'effect').map(({ id }) => id)
  const again = repeated(ids)
  if (again.length > 0 && !mayRerun) accuse('I3', `${again.length} jobs ran again: ${some(again)}`)
  return again.length
}

/** I13. */
function checkDrained({ drainedAfterMs, limits }: OutboxEvidence, accuse: Accuse): void {
  if (drainedAfterMs === undefined) accuse('I13', `something still waits after ${limits.drainMs} ms`)
}

function checkComplaints({ events, mayComplain }: OutboxEvidence, accuse: Accuse): void {
  const errors = eventsOf(events, 'error')
  if (errors.length > 0 && !mayComplain)
    accuse(
      'errors',
      `${errors.length} errors were shown: ${some(errors.map((one) => `${one.during}: ${one.message}`))}`,
    )
}

function countRepeated({ deliveries }: OutboxEvidence, kind: Kind): number {
  return repeated(deliveries.filter((delivery) => delivery.kind === kind).map(({ id }) => id)).length
}

/** Each time after the first. */
function repeated(ids: readonly string[]): string[] {
  const seen = new Set<string>()
  return ids.filter((id) => seen.size === seen.add(id).size)
}

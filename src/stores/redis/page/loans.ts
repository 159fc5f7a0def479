/**
 * Loans of limits. Where nothing counts but how many jobs of a line start and end, the desk lends the fast path what there is room
 * for. insert.lua and exchange.lua write down what came of it; whoever looks at gates or lines at the desk first calls it in, and
 * tells it to the gates. So the rules stay in core/traffic, and jobs with limits cost hardly more than others.
 */
import { completed } from '../../../core/lifecycle.js'
import type { TrafficLine } from '../../ledger/traffic.js'
import { kindKey, type PagedQueue } from '../../page/kinds.js'
import type { Page } from '../../page/page.js'
import type { PagedTables } from '../../page/tables.js'
import type { Deeds } from './deeds.js'
import type { Question } from './question.js'

/** What was lent to a queue, and what came of it. */
interface LoanRow {
  readonly queue: string
  readonly at: number
  /** The definition that the line is of; empty for the one of jobs that only have groups, and the plain lines of the queue. */
  readonly name: string
  readonly lane: number
  readonly place: number
  readonly begun: number
  readonly ended: number
  readonly tag: number
  readonly served: number
  /** When how many started and ended, where that counts: 'time:begun:ended,' for each exchange. */
  readonly log: string
}

/** More than this is never lent at once. */
const mostLent = 1_000_000

/** Those of these queues. A verb that changes something closes them, others just look. */
export function loansQuestion(page: Page, queues: readonly string[]): Question {
  return {
    name: 'loans',
    values: [page.changes ? 1 : 0, ...queues],
    take(loans: readonly (readonly string[])[]) {
      queues.forEach((queue, i) => {
        const pairs = loans[i] ?? []
        page.putRow('loan', queue, pairs.length === 0 ? null : readLoan(queue, pairs))
      })
    },
  }
}

/** Tells gates and lines what happened. */
export function callIn(tables: PagedTables, now: number): void {
  for (const loan of loansOf(tables)) {
    const { queue, name, lane, at, begun, ended, log } = loan
    const { traffic } = tables
    const job = { queue, name, lane, traffic: undefined }
    const events = log === '' ? [[now, begun, ended]] : readLog(log)
    for (const [time, started, done] of events as Iterable<[number, number, number]>) {
      if (started > 0) traffic.started(queue, name, started, time)
      if (done > 0) traffic.ended(job, completed(undefined, noRetention), at, done, time)
    }
    const line = lineOf(tables, loan)
    if (line === undefined) continue
    line.tag = loan.tag
    line.served = loan.served
  }
}

const noRetention = { completed: 0, dead: 0 }

/** What is lent to queues that were called in, or that the verb was about. Gates that it has not looked at are as they were. */
export function lend(tables: PagedTables, queues: Iterable<string>): Loans {
  const loans = new Map<string, Fields | undefined>()
  for (const { queue } of loansOf(tables)) loans.set(queue, undefined)
  for (const name of queues) if (tables.page.peek('loan', name) !== undefined) loans.set(name, undefined)
  tables.each(loans.keys(), (name) => {
    const queue = tables.kinds.findQueue(name)
    if (queue?.traffic) loans.set(name, fieldsOf(tables, queue as PagedQueue))
  })
  return loans
}

/** By queue; undefined where each start has to be asked for. */
export type Loans = ReadonlyMap<string, Fields | undefined>
type Fields = readonly (string | number)[]

export function writeLoans(tables: PagedTables, loans: Loans, deeds: Deeds): void {
  const calledIn = new Map(loansOf(tables).map((loan) => [loan.queue, loan]))
  for (const { queue, begun, ended } of calledIn.values()) deeds.check('loan', queue, begun, ended)
  for (const [queue, fields] of loans)
    if (fields !== undefined || calledIn.has(queue)) deeds.write('lend', queue, ...(fields ?? []))
}

function fieldsOf(tables: PagedTables, queue: PagedQueue): Fields | undefined {
  const { page, traffic, kinds, books } = tables
  const lanes = [0, 1, 2, 3]
  const [line, ...others] = lanes.flatMap((lane) => [...queue.trafficLines(lane)])
  if (others.length > 0) return undefined
  const name = line?.name ?? ''
  // A definition's limits count its jobs in all queues.
  if (new Set(kinds.queuesOf(name)).size > 1) return undefined
  const loan = traffic.loan(queue.name, name, page.now)
  if (loan === undefined) return undefined
  const { depth, each } = books.findGate({ of: 'queue', name: queue.name })?.settings ?? {}
  const kind = name === '' ? undefined : kinds.find(kindKey(queue.name, name, line?.lane ?? 0))
  if (name !== '' && kind === undefined) return undefined
  const fields = {
    open: 1,
    at: page.now,
    name,
    lane: line?.lane ?? 0,
    place: line?.num ?? 0,
    kind: kind?.num ?? 0,
    left: Math.min(mostLent, loan.room),
    refills: loan.refills ? 1 : 0,
    timed: loan.timed ? 1 : 0,
    full: depth === undefined ? 0 : 1,
    grouped: each === undefined ? 1 : 0,
    begun: 0,
    ended: 0,
    tag: line?.tag ?? 0,
    served: line?.served ?? 0,
    log: '',
  }
  return Object.entries(fields).flat()
}

function readLog(log: string): number[][] {
  return log
    .split(',')
    .slice(0, -1)
    .map((entry) => entry.split(':').map(Number))
}

function loansOf({ page }: PagedTables): readonly LoanRow[] {
  return page.rowsOf<LoanRow>('loan')
}

function lineOf({ kinds, books }: PagedTables, { queue, lane, place }: LoanRow): TrafficLine | undefined {
  if (place === 0) return undefined
  const { num } = kinds.queue(queue)
  return books.linesOf(num, lane).find((line) => line.num === place)
}

function readLoan(queue: string, pairs: readonly string[]): LoanRow {
  const fields = new Map<string, string>()
  for (let i = 0; i < pairs.length; i += 2) fields.set(pairs[i] as string, pairs[i + 1] as string)
  const number = (name: string) => Number(fields.get(name) ?? 0)
  return {
    queue,
    at: number('at'),
    name: fields.get('name') ?? '',
    lane: number('lane'),
    place: number('place'),
    begun: number('begun'),
    ended: number('ended'),
    tag: number('tag'),
    served: number('served'),
    log: fields.get('log') ?? '',
  }
}

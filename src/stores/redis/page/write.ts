import { bounds } from '../../../core/bounds.js'
import type { GateRow } from '../../page/places.js'
import type { PagedTables } from '../../page/tables.js'
import { type CountedEnds, tellsResults } from '../ends.js'
import { queueFlags } from '../queue-flags.js'
import { sortable } from '../ticket.js'
import { Deeds } from './deeds.js'
import { keyOfGate, tallyOf, textOfTally } from './tallies.js'
import { writeJobs } from './write-jobs.js'

/** All that is to be written of what a try has changed; nothing of what it left as it was. */
export function writings(tables: PagedTables): Deeds {
  const deeds = new Deeds()
  for (const kind of tables.kinds.counted)
    deeds.check('count', kind.num, 'running', tables.kinds.storedRunning(kind))
  writeJobs(tables, deeds)
  writeEnds(tables, deeds)
  writePlaces(tables, deeds)
  writeWorkers(tables, deeds)
  for (const book of ['holder', 'guard', 'schedule', 'mail'] as const) writeRecords(tables, book, deeds)
  writeCauses(tables, deeds)
  writeCounts(tables, deeds)
  writeLogs(tables, deeds)
  if (tables.lastNum !== undefined) {
    deeds.check('number', tables.page.sheet<{ last: number }>('number').last)
    deeds.write('root', 'number', tables.lastNum)
  }
  return deeds
}

/** Of jobs whose gates have been told; see counted.ts. */
function writeEnds({ ended, page }: PagedTables, deeds: Deeds): void {
  if (ended === undefined) return
  const { worker, groups } = ended as CountedEnds
  for (const group of groups) {
    const { claim, retain, tickets, results } = group
    for (let from = 0; from < tickets.length; from += endsAtOnce) {
      const some = tickets.slice(from, from + endsAtOnce)
      const told = tellsResults(group) ? results.slice(from, from + endsAtOnce) : []
      deeds.write('end', worker, claim, retain, page.now, some.length, ...some, ...told)
    }
  }
}

const endsAtOnce = 1_000

function writePlaces({ books }: PagedTables, deeds: Deeds): void {
  const { kept, gone, looksAgain, lines } = books.changes()
  for (const { scope, owner, due } of looksAgain) deeds.write('lookAgain', scope, owner, due)
  const left = new Map<string, GateRow>()
  for (const row of gone) {
    checkTally(row, row, deeds)
    deeds.write('noGate', row.num, keyOfGate(row))
    left.set(keyOfGate(row), row)
  }
  for (const { row, before } of kept) {
    const { num, owner } = row
    const tally = tallyOf(row)
    // A group that lost its last job and got another one has a new gate.
    checkTally(row, before ?? left.get(keyOfGate(row)), deeds)
    if (tally === undefined) writeGate(row, deeds)
    else deeds.write('tally', num, keyOfGate(row), owner, tally)
  }
  for (const line of lines) deeds.call('HSET', 'lines', line.num, JSON.stringify(line))
}

/** The fast path may have changed it since it was read. */
function checkTally(row: GateRow, before: GateRow | undefined, deeds: Deeds): void {
  if (row.scope === 'group') deeds.check('tallied', keyOfGate(row), (before && textOfTally(before)) ?? '')
}

function writeGate(row: GateRow, deeds: Deeds): void {
  const { num, scope, owner, due, fading, active, parked } = row
  const flags = [active ? 1 : 0, parked > 0 ? 1 : 0]
  deeds.write(
    'gate',
    num,
    keyOfGate(row),
    scope,
    owner,
    due ?? '',
    fading ?? '',
    ...flags,
    JSON.stringify(row),
  )
}

function writeWorkers({ workers }: PagedTables, deeds: Deeds): void {
  const { kept, gone } = workers.changes()
  for (const { id } of gone) deeds.write('noWorker', id)
  for (const { id, expires_at, latest } of kept) {
    deeds.call('ZADD', 'workers', expires_at, id)
    if (latest !== null) deeds.call('HSET', 'latest', id, latest)
  }
}

type Row = Record<string, unknown> & { readonly n: number }

/** The sets that order the things of a book, with what they are ordered by. */
const orders: Record<string, (row: Row) => readonly (readonly [set: string, rank: unknown])[]> = {
  holder: ({ rank }) => [['holders', rank]],
  guard: ({ rank }) => [['guards', rank]],
  schedule: ({ look, told }) => [
    ['looks', look],
    ['tolds', told],
  ],
  mail: ({ line, n, expires_at, spreading }) => [
    [`mailline:${line}`, n],
    ['mailtime', expires_at],
    ['spreading', spreading === true ? n : null],
  ],
}

function writeRecords(
  { page, records }: PagedTables,
  book: keyof PagedTables['records'],
  deeds: Deeds,
): void {
  const { kept, gone } = records[book].changes()
  const order = orders[book] as (row: Row) => readonly (readonly [string, unknown])[]
  const forget = (key: string) => {
    const before = page.peek<Row>(book, key)
    if (!before) return
    for (const [set, rank] of order(before))
      if (rank !== null) deeds.call('ZREM', set, sortable(before.n) + key)
  }
  for (const key of gone) {
    forget(key)
    deeds.call('HDEL', book, key)
    if (book === 'schedule') deeds.call('ZREM', 'schedulenames', key)
  }
  for (const row of kept as (Row & { key: string })[]) {
    forget(row.key)
    deeds.call('HSET', book, row.key, JSON.stringify(row))
    for (const [set, rank] of order(row))
      if (rank !== null) deeds.call('ZADD', set, rank as number, sortable(row.n) + row.key)
    if (book === 'schedule') deeds.call('ZADD', 'schedulenames', 0, row.key)
  }
}

function writeCauses({ causes }: PagedTables, deeds: Deeds): void {
  const { died, rose } = causes.tally()
  for (const { cause, name, message, first_at, last_at, sample, count } of died)
    deeds.write('died', cause, name, message, first_at, last_at, sample, count)
  for (const { cause, count } of rose) deeds.write('rose', cause, count)
}

function writeCounts({ kinds }: PagedTables, deeds: Deeds): void {
  for (const { num, states, totals } of kinds.changed()) {
    for (const [state, count] of Object.entries(states))
      if (count !== 0) deeds.call('HINCRBY', `c:${num}`, state, count)
    for (const [total, count] of Object.entries(totals))
      if (count !== 0) deeds.call('HINCRBY', `c:${num}`, `total_${total}`, count)
  }
  for (const queue of kinds.changedQueues()) deeds.write('queue', queue.name, queueFlags(queue))
}

function writeLogs({ logs }: PagedTables, deeds: Deeds): void {
  for (const { seq, lines } of logs) {
    deeds.call('RPUSH', `logs:${seq}`, ...lines.map((line) => JSON.stringify(line)))
    deeds.call('LTRIM', `logs:${seq}`, -bounds.logLines, -1)
  }
}

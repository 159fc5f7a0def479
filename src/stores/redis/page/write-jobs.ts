import type { Entry } from '../../ledger/entry.js'
import type { StoredJob } from '../../page/job-row.js'
import { KinChanges } from '../../page/kin.js'
import { MarkChanges } from '../../page/marks.js'
import type { PagedTables } from '../../page/tables.js'
import { WaiterChanges } from '../../page/waits.js'
import { positionDigits, ticketOf } from '../ticket.js'
import type { Deeds } from './deeds.js'
import { type Image, imageOf, imageOfRow, isSame, nothing } from './image.js'
import { parentTextIn, type ReadJob } from './job-reply.js'
import { Leases, writeHeads } from './write-heads.js'
import { writeKin } from './write-kin.js'

/** Jobs that a try has looked at, and all that is kept of each. */
export function writeJobs(tables: PagedTables, deeds: Deeds): void {
  const kin = new KinChanges()
  const marks = new MarkChanges()
  const waiters = new WaiterChanges()
  const leases = new Leases()
  const lines = new Set<string>()
  const tickets = new Map<number, string>()
  const known = new Set<string>()
  tables.jobs.visit(({ row, entry, steps }, now) => {
    const read = row as ReadJob | undefined
    const stored = now && tables.jobs.stored(now)
    const before = read === undefined ? nothing : imageOfRow(tables, read)
    const stays = read !== undefined && now !== undefined && isAsItEnded(now, read)
    const after = stays ? before : now === undefined ? nothing : imageOf(now, stored as StoredJob, before)
    const { id } = entry.job
    const ticket = ticketOf(entry.seq, id)
    tickets.set(entry.seq, ticket)
    kin.see(row, entry, now, steps)
    if (read?.parent != null) deeds.check('parent', read.seq, parentTextIn(read.read))
    waiters.see(row, entry, now)
    if (isSame(before, after)) return
    if (read !== undefined) {
      known.add(id)
      deeds.check('same', ticket, before.token, before.story, before.done)
    }
    // One that was there may be gone, and come anew.
    if (read === undefined && !known.has(id)) writeNew(after, ticket, deeds)
    else writeChanges(before, after, ticket, deeds)
    if (!stays) marks.see(row, stored)
    if (before.line !== '' && before.line !== after.line) lines.add(before.line)
    writeRest(before, after, ticket, deeds)
    leases.see(before.token, after.token, ticket, now?.lease)
  })
  for (const line of lines) deeds.write('trimLine', line)
  writeHeads(tables, leases, deeds)
  leases.write(deeds)
  for (const { mark, state, seq } of marks.gone)
    if (state !== 0) deeds.call('ZREM', `m:${state}:${mark}`, tickets.get(seq) as string)
  for (const { mark, state, rank, seq } of marks.come)
    if (state !== 0) deeds.call('ZADD', `m:${state}:${mark}`, rank, tickets.get(seq) as string)
  for (const { key, n } of waiters.gone) deeds.call('ZREMRANGEBYSCORE', `waiter:${key}`, n, n)
  for (const { key, n, seq } of waiters.came)
    deeds.call('ZADD', `waiter:${key}`, n, tickets.get(seq) as string)
  writeKin(tables, kin, tickets, deeds)
}

/** One that completed on the fast path, and that nothing happened to since. */
function isAsItEnded({ state, rank }: Entry, { expires_at }: ReadJob): boolean {
  return expires_at !== null && state === 'completed' && rank === expires_at
}

function writeNew({ body, story, line, mark, place, turn, wait }: Image, ticket: string, deeds: Deeds): void {
  if (place === '') deeds.add(['add', story, line, mark], ticket, body)
  else deeds.add(['addTo', place, wait, story], ticket, body, turn)
}

function writeChanges(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  writeParts(before, after, ticket, deeds)
  writeLine(before, after, ticket, deeds)
  writePlace(before, after, ticket, deeds)
}

function writeParts(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  const handle = ticket.slice(positionDigits)
  const parts = [
    ['j', before.body, after.body],
    ['s', before.story, after.story],
    ['d', before.done, after.done],
  ] as const
  for (const [letter, was, is] of parts) {
    if (was === is) continue
    if (is === '') deeds.write('drop', letter, handle)
    else deeds.write('put', letter, handle, is)
  }
}

/** In a list are those that have no story, and those that are marked as such. One whose story changes goes to those that came back. */
function writeLine(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  const isSameLine = before.line === after.line
  if (isSameLine && (before.line === '' || before.story === after.story)) return
  if (before.line !== '') deeds.write('leaveLine', before.line, ticket)
  if (after.line === '') return
  if (before.body === '') deeds.write('joinLine', after.line, ticket, after.mark)
  else deeds.call('ZADD', `back:${after.line}`, 0, ticket)
}

function writePlace(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  if (before.place !== '' && before.place !== after.place)
    deeds.join(['call', 'ZREM', `place:${before.place}`], ticket)
  if (after.place === '') {
    if (before.wait !== '') deeds.join(['call', 'HDEL', 'waits'], ticket)
  } else if (before.place !== after.place || before.turn !== after.turn || before.wait !== after.wait)
    deeds.join(['enter', after.place], ticket, after.turn, after.wait)
}

/** Whether it waits for something else, and who runs it. */
function writeRest(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  if (before.shelf !== after.shelf || before.rank !== after.rank) {
    if (before.shelf !== '' && before.shelf !== after.shelf)
      deeds.call('ZREM', `state:${before.shelf}`, ticket)
    if (after.shelf !== '') deeds.join(['call', 'ZADD', `state:${after.shelf}`], after.rank, ticket)
  }
  if (before.run === after.run) return
  if (after.run !== '') deeds.join(['run'], ticket, after.run)
  else deeds.join(['call', 'HDEL', 'running'], ticket)
}

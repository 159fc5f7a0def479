import type { Entry } from '../../ledger/entry.js'
import type { Lease } from '../../ledger/worker.js'
import { placeNumber } from '../../page/heads.js'
import { givenText, type StoredJob } from '../../page/job-row.js'
import { KinChanges } from '../../page/kin.js'
import type { PagedKind } from '../../page/kinds.js'
import type { LinkRow } from '../../page/links.js'
import { MarkChanges } from '../../page/marks.js'
import type { PagedTables } from '../../page/tables.js'
import { WaiterChanges } from '../../page/waits.js'
import { writeBody } from '../body.js'
import { plainStory, writeStory } from '../story.js'
import { idIn, position, ticketOf } from '../ticket.js'
import { ToldJobs } from '../told.js'
import { unusualOf } from '../unusual.js'
import type { Deeds } from './deeds.js'
import { gatesIn, type TicketRow, waitAt } from './head.js'
import type { ParentText, ReadJob } from './job-reply.js'
import { writeLinkText } from './link-text.js'

/** A job as the keys of the server have it; '' for what it has not. */
interface Image {
  readonly body: string
  readonly story: string
  /** The token of its claim, and the same as `running` has it. */
  readonly token: string
  readonly run: string
  readonly line: string
  /** What its entry of the line ends with. */
  readonly mark: string
  readonly place: string
  readonly turn: string
  readonly wait: string
  readonly done: string
  /** The state that it is shelved by, and its rank there. */
  readonly shelf: string
  readonly rank: string
}

const nothing: Image = {
  body: '',
  story: '',
  token: '',
  run: '',
  line: '',
  mark: '',
  place: '',
  turn: '',
  wait: '',
  done: '',
  shelf: '',
  rank: '',
}

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
    if (read?.parent != null) deeds.check('parent', read.seq, read.read[8])
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

function imageOfRow({ kinds }: PagedTables, row: ReadJob): Image {
  const [, body, story, token, , wait, turn, done, , , run] = row.read
  const shelf = done === '' ? row.state : completed
  return {
    body,
    story,
    token,
    run,
    line: row.run_first === null ? '' : lineName(kinds.byNum(row.kind)),
    mark: markOf(story, row.child_of),
    place: row.place === null ? '' : String(row.place),
    turn,
    wait,
    done,
    shelf: shelf === 0 ? '' : String(shelf),
    rank: shelf === 0 ? '' : String(done === '' ? row.rank : row.expires_at),
  }
}

const completed = 5

function imageOf(entry: Entry, stored: StoredJob, before: Image): Image {
  const { state, kind, rank, story } = entry
  const place = state === 'pending' ? story?.place : undefined
  const isInLine = state === 'pending' && place === undefined
  const special = isSpecial(stored)
  const rest = stored.rest === givenText(entry.job) ? null : stored.rest
  const text = writeStory({ ...stored, rest, special, isParent: story?.parenthood !== undefined })
  const token = state === 'running' ? (entry.lease?.token ?? '') : ''
  // One that comes back differs from what it was, so that nobody takes it for a job that never left its line.
  const hasStayed = isInLine
    ? before.line === lineName(kind as PagedKind)
    : place !== undefined && before.place !== ''
  const isUntold = text === plainStory && before.story === '' && (before.body === '' || hasStayed)
  const told = isUntold ? '' : text
  return {
    body: writeBody({ ...stored, unusual: unusualOf(entry.job) }),
    story: told,
    token,
    run: runText(entry, token, special ? undefined : stored.child_of, before),
    line: isInLine ? lineName(kind as PagedKind) : '',
    mark: markOf(told, stored.child_of),
    place: place === undefined ? '' : String(placeNumber(place)),
    turn: place === undefined ? '' : String(rank),
    wait: place === undefined ? '' : waitText(entry, placeNumber(place), [special, !isUntold], before.wait),
    done: '',
    shelf: stored.state === 0 ? '' : String(stored.state),
    rank: stored.state === 0 ? '' : String(rank),
  }
}

/** See ticketIn in common.lua. */
function markOf(story: string, childOf: number | null): string {
  if (story !== '') return '*'
  return childOf === null ? '' : `${position(childOf)}~`
}

/** Only the desk may start or end it: what is indexed changes with its state. */
function isSpecial({ special, tags, search }: StoredJob): boolean {
  return special || tags !== null || search !== null
}

/** See claimIn in common.lua. `childOf`: undefined for a special one. */
function runText(
  { job, gates }: Entry,
  token: string,
  childOf: number | null | undefined,
  before: Image,
): string {
  if (token === '') return ''
  const forDesk = `${token}*`
  if (childOf === undefined) return forDesk
  const hasGates = (job.traffic?.group ?? job.traffic?.key) !== undefined
  if (!hasGates) return childOf === null ? token : `${token}+${childOf}`
  if (childOf !== null) return forDesk
  if (gates !== undefined) return `${token}~${gates.map(({ num }) => num).join(':')}`
  return before.token === token ? before.run : forDesk
}

/**
 * A child is special where it waits: its end is counted at its parent too. What has a story is to be looked at. One that stays has its
 * gates unlooked at.
 */
function waitText(
  { gates, job, kind }: Entry,
  place: number,
  [special, isTold]: readonly [special: boolean, isTold: boolean],
  before: string,
): string {
  const numbers = gates?.map(({ num }) => num).join(':') ?? gatesIn(before)
  const look = special || job.family !== undefined ? 1 : isTold ? 2 : 0
  return [place, (kind as PagedKind).num, job.traffic?.gated === true ? 1 : 0, look, numbers].join(';')
}

function lineName({ queue, lane }: PagedKind): string {
  return `${lane}:${queue.name}`
}

function isSame(before: Image, after: Image): boolean {
  for (const key in before) if (before[key as keyof Image] !== after[key as keyof Image]) return false
  return true
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

function writePlace(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  if (before.place !== '' && before.place !== after.place)
    deeds.join(['call', 'ZREM', `place:${before.place}`], ticket)
  if (after.place === '') {
    if (before.wait !== '') deeds.join(['call', 'HDEL', 'waits'], ticket)
  } else if (before.place !== after.place || before.turn !== after.turn || before.wait !== after.wait)
    deeds.join(['enter', after.place], ticket, after.turn, after.wait)
}

function writeParts(before: Image, after: Image, ticket: string, deeds: Deeds): void {
  const handle = ticket.slice(11)
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

/** Jobs that were started or moved by their places. */
function writeHeads({ heads }: PagedTables, leases: Leases, deeds: Deeds): void {
  const { started, lease, moved } = heads.changes()
  for (const { row, place, rank } of moved) {
    const { ticket, wait } = row as TicketRow
    deeds.check('waiting', ticket)
    if (place !== row.place) deeds.join(['call', 'ZREM', `place:${row.place}`], ticket)
    deeds.join(['enter', place], ticket, rank, waitAt(place, wait))
  }
  if (lease === undefined) return
  const byPlace = new Map<number, string[]>()
  for (const row of started as TicketRow[]) {
    const tickets = byPlace.get(row.place)
    if (tickets === undefined) byPlace.set(row.place, [row.ticket])
    else tickets.push(row.ticket)
  }
  for (const [place, tickets] of byPlace) {
    for (const ticket of tickets) {
      deeds.join(['start', place, lease.token], ticket)
      leases.see('', lease.token, ticket, lease)
    }
  }
  const tickets = [...byPlace.values()].flat()
  deeds.tells(([bodies, stories]) => heads.hear(new ToldJobs(tickets, bodies, stories)))
}

/** Which claims have been given jobs, and which have lost some. */
class Leases {
  readonly #taken = new Map<string, { readonly lease: Lease; readonly tickets: string[] }>()
  readonly #dropped = new Map<string, number>()

  /** Tokens of its claim; '' for none. `lease`: what it is under now. */
  see(before: string, after: string, ticket: string, lease: Lease | undefined): void {
    if (before === after) return
    if (before !== '') this.#dropped.set(before, (this.#dropped.get(before) ?? 0) + 1)
    if (after === '') return
    const taken = this.#taken.get(after) ?? { lease: lease as Lease, tickets: [] }
    taken.tickets.push(ticket)
    this.#taken.set(after, taken)
  }

  write(deeds: Deeds): void {
    for (const [token, { lease, tickets }] of this.#taken) {
      const { worker, at } = lease
      const fields = ['worker', worker.id, 'at', at, 'left', tickets.length, 'tickets', tickets.join('\n')]
      deeds.call('HSET', `l:${token}`, ...fields)
      deeds.call('SADD', `w:${worker.id}`, token)
    }
    for (const [token, count] of this.#dropped) deeds.write('leaseLess', token, count)
  }
}

function writeKin(
  tables: PagedTables,
  kin: KinChanges,
  tickets: ReadonlyMap<number, string>,
  deeds: Deeds,
): void {
  for (const seq of kin.noParents) {
    deeds.call('HDEL', 'parents', seq)
    deeds.call('ZREM', 'doomed', idOfTicket(tickets, seq))
    deeds.call('DEL', `link:${seq}`)
    deeds.call('DEL', `linked:${seq}`)
  }
  for (const seq of kin.noFans) deeds.write('forgetFans', seq)
  for (const { seq, waiting, doomed, state } of kin.parents) {
    const text: ParentText = [waiting, doomed, state]
    deeds.call('HSET', 'parents', seq, JSON.stringify(text))
    if (doomed === null) deeds.call('ZREM', 'doomed', idOfTicket(tickets, seq))
    else deeds.call('ZADD', 'doomed', seq, idOfTicket(tickets, seq))
  }
  for (const [parent, rows] of byParent(kin.newLinks)) {
    const children = rows.map(({ child }) => child)
    deeds.checkAll(['unlinked', parent], children)
    deeds.calls(
      'ZADD',
      `linked:${parent}`,
      children.flatMap((child) => [0, child]),
    )
  }
  for (const [parent, rows] of byParent([...kin.newLinks, ...kin.links]))
    deeds.calls(
      'HSET',
      `link:${parent}`,
      rows.flatMap((row) => [row.child, writeLinkText(row)]),
    )
  for (const seq of kin.noSteps) deeds.call('DEL', `steps:${seq}`)
  for (const { seq, name, open, state } of kin.steps)
    deeds.write('step', seq, name, tables.nextNum(), open ? 1 : 0, state)
  for (const seq of kin.noLogs) deeds.call('DEL', `logs:${seq}`)
}

function byParent(links: readonly LinkRow[]): Map<number, LinkRow[]> {
  const families = new Map<number, LinkRow[]>()
  for (const link of links) {
    const family = families.get(link.parent)
    if (family === undefined) families.set(link.parent, [link])
    else family.push(link)
  }
  return families
}

function idOfTicket(tickets: ReadonlyMap<number, string>, seq: number): string {
  return idIn(tickets.get(seq) as string)
}

/** What of a job is compared with what was read of it. */
import type { Entry } from '../../ledger/entry.js'
import { placeNumber } from '../../page/heads.js'
import { givenText, type StoredJob, stateNumbers } from '../../page/job-row.js'
import type { PagedKind } from '../../page/kinds.js'
import type { PagedTables } from '../../page/tables.js'
import { writeBody } from '../body.js'
import { plainStory, writeStory } from '../story.js'
import { position } from '../ticket.js'
import { unusualOf } from '../unusual.js'
import { gatesIn } from './head.js'
import type { ReadJob } from './job-reply.js'

/** A job as the keys of the server have it; '' for what it has not. */
export interface Image {
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

export const nothing: Image = {
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

/** As it was read. */
export function imageOfRow({ kinds }: PagedTables, row: ReadJob): Image {
  const [, body, story, token, , wait, turn, done, , , run] = row.read
  const shelf = done === '' ? row.state : stateNumbers.completed
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

/** As it is now. */
export function imageOf(entry: Entry, stored: StoredJob, before: Image): Image {
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

export function isSame(before: Image, after: Image): boolean {
  for (const key in before) if (before[key as keyof Image] !== after[key as keyof Image]) return false
  return true
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

import { isPlainChild, type NewFamily } from '../../core/family.js'
import type { JobState, NewJob } from '../../core/job.js'
import { Entry, storyOf } from '../ledger/entry.js'
import type { Kind } from '../ledger/kind.js'
import { separator } from './separator.js'

/** A job as it is read: its row, and where it waits. */
export interface JobRow {
  readonly seq: number
  readonly id: string
  readonly kind: number
  readonly state: number
  readonly special: boolean
  readonly rank: number | null
  readonly created_at: number
  readonly max_attempts: number
  readonly max_crashes: number
  readonly input: string
  readonly overrides: string | null
  readonly tags: string | null
  readonly search: string | null
  readonly metadata: string | null
  readonly rest: string | null
  /** Position of its parent, of one that is a child and otherwise plain. */
  readonly child_of: number | null
  /** Of a pending job that has to pass gates: the line, or as a negative number the gate that it is parked behind. */
  readonly place: number | null
  readonly turn: number | null
  /** Of one that has none to pass: the run that it is in. */
  readonly run_first: number | null
  readonly run_last: number | null
  readonly finished_at: number | null
  /** Of one that completed on the fast path: its row says nothing of that. */
  readonly started_at: number | null
  readonly expires_at: number | null
  readonly result: string | null
  /** Of one that has children. */
  readonly parent: string | null
  readonly waiting: number | null
  readonly doomed: string | null
}

/** The columns of a job's own row. */
export type StoredJob = Pick<
  JobRow,
  | 'seq'
  | 'id'
  | 'kind'
  | 'state'
  | 'special'
  | 'rank'
  | 'finished_at'
  | 'created_at'
  | 'max_attempts'
  | 'max_crashes'
  | 'input'
  | 'overrides'
  | 'tags'
  | 'search'
  | 'metadata'
  | 'rest'
  | 'child_of'
>

type Story = NonNullable<Entry['story']>

/** Everything rare. */
interface Rest
  extends Partial<
      Pick<
        Story,
        | 'attempt'
        | 'crashes'
        | 'retryDelay'
        | 'readyAt'
        | 'startedAt'
        | 'result'
        | 'failure'
        | 'cause'
        | 'cancelReason'
        | 'progress'
        | 'attempts'
        | 'logged'
        | 'waits'
        | 'waiter'
      >
    >,
    Partial<Pick<NewJob, 'traffic' | 'dedupe' | 'family' | 'guard' | 'unwinds'>> {
  readonly stepped?: boolean
}

/** The numbers of the states; a live job is pending or running, and its row does not say which. */
const live = 0
export const stateNumbers: Readonly<Record<JobState, number>> = {
  pending: live,
  scheduled: 1,
  running: live,
  retrying: 3,
  blocked: 4,
  completed: 5,
  dead: 6,
  cancelled: 7,
}

const stateNames: readonly JobState[] = [
  'pending',
  'scheduled',
  'running',
  'retrying',
  'blocked',
  'completed',
  'dead',
  'cancelled',
]

/** Without what is kept elsewhere: place, lease, children and steps. */
export function readEntry(row: JobRow, kind: Kind): Entry {
  const rest = row.rest === null ? undefined : (JSON.parse(row.rest) as Rest)
  const job: NewJob = {
    id: row.id,
    name: kind.name,
    queue: kind.queue.name,
    lane: kind.lane,
    input: row.input,
    delay: 0,
    runAt: undefined,
    maxAttempts: row.max_attempts,
    maxCrashes: row.max_crashes,
    overrides: row.overrides ?? undefined,
    tags: row.tags === null ? undefined : (JSON.parse(row.tags) as string[]),
    search: row.search === null ? undefined : (JSON.parse(row.search) as string[]),
    metadata: row.metadata ?? undefined,
    traffic: rest?.traffic,
    dedupe: rest?.dedupe,
    family: rest?.family,
    guard: rest?.guard,
    unwinds: rest?.unwinds,
  }
  const entry = new Entry(row.seq, job, kind, row.created_at)
  entry.state = stateNames[row.state] ?? 'pending'
  entry.rank = row.turn ?? row.rank ?? 0
  if (rest !== undefined) readStory(entry, rest)
  if (row.finished_at !== null) storyOf(entry).finishedAt = row.finished_at
  if (row.expires_at !== null) readEnd(entry, row, row.expires_at)
  return entry
}

function readStory(entry: Entry, rest: Rest): void {
  const story = storyOf(entry)
  story.attempt = rest.attempt ?? 0
  story.crashes = rest.crashes ?? 0
  story.retryDelay = rest.retryDelay ?? 0
  story.readyAt = rest.readyAt
  story.startedAt = rest.startedAt
  story.result = rest.result
  story.failure = rest.failure
  story.cause = rest.cause
  story.cancelReason = rest.cancelReason
  story.progress = rest.progress
  story.attempts = rest.attempts ?? []
  story.logged = rest.logged
  story.waits = rest.waits
  story.waiter = rest.waiter ?? 0
}

function readEnd(entry: Entry, { started_at, result }: JobRow, expiresAt: number): void {
  entry.state = 'completed'
  entry.rank = expiresAt
  const story = storyOf(entry)
  story.attempt++
  story.retryDelay = 0
  story.startedAt = started_at ?? undefined
  story.result = result || undefined
}

export function isStepped(row: JobRow): boolean {
  return row.rest?.includes('"stepped":true') === true && (JSON.parse(row.rest) as Rest).stepped === true
}

/** `childOf`: the position of the parent, as far as it is known. */
export function writeEntry(entry: Entry, kind: number, childOf: number | undefined): StoredJob {
  const { job, seq, state, rank, createdAt, story } = entry
  return {
    seq,
    id: job.id,
    kind,
    state: stateNumbers[state],
    special: isSpecial(entry, childOf),
    rank: stateNumbers[state] === live ? null : rank,
    finished_at: story?.finishedAt ?? null,
    created_at: createdAt,
    max_attempts: job.maxAttempts,
    max_crashes: job.maxCrashes,
    input: job.input,
    overrides: job.overrides ?? null,
    tags: job.tags === undefined ? null : JSON.stringify(job.tags),
    search: job.search === undefined ? null : JSON.stringify(job.search),
    metadata: job.metadata ?? null,
    rest: restText(entry),
    child_of: childOf ?? null,
  }
}

/** The parent of a child that is otherwise plain: all that its end means is that one child less is waited for. */
export function onlyParent({ family }: NewJob): string | undefined {
  if (family === undefined || !isPlainChild(family)) return undefined
  const [parent] = family.parents
  const isPlain = parent?.fan === undefined && family.stays !== true && family.undoes === undefined
  return isPlain ? parent?.id : undefined
}

/** Whether its end, or its next start, means more than that it is gone: only the desk may settle it. */
export function isSpecial({ job, story }: Entry, childOf: number | undefined): boolean {
  return (
    job.dedupe !== undefined ||
    (job.family !== undefined && childOf === undefined) ||
    job.guard !== undefined ||
    job.unwinds === true ||
    // Would not stand in a list of texts.
    job.input.includes(separator) ||
    (story !== undefined &&
      (story.cancelReason !== undefined ||
        story.steps !== undefined ||
        story.parenthood !== undefined ||
        // Its lines go with it.
        story.logged !== undefined))
  )
}

/** What is unusual about a job from the beginning. Undefined values are left out. */
export function givenText(job: NewJob): string | null {
  const { traffic, dedupe, family, guard, unwinds } = job
  if ((traffic ?? dedupe ?? family ?? guard) === undefined && unwinds !== true) return null
  if (family !== undefined && isOnly(family, job)) return familyText(family)
  return JSON.stringify({ traffic, dedupe, family, guard, unwinds: unwinds || undefined })
}

function restText({ job, story }: Entry): string | null {
  if (story === undefined || isBlank(story)) return givenText(job)
  const { traffic, dedupe, family, guard, unwinds } = job
  const rest: Rest = {
    traffic,
    dedupe,
    family,
    guard,
    unwinds: unwinds || undefined,
    ...toldIn(story),
  }
  const text = JSON.stringify(rest)
  return text === '{}' ? null : text
}

function isOnly(family: NewFamily, { traffic, dedupe, guard, unwinds }: NewJob): boolean {
  return (traffic ?? dedupe ?? guard) === undefined && unwinds !== true && isPlainChild(family)
}

/** Children of a flow have one family between them. */
export function familyText(family: NewFamily): string {
  let text = familyTexts.get(family)
  if (text === undefined) {
    text = JSON.stringify({ family })
    familyTexts.set(family, text)
  }
  return text
}

const familyTexts = new WeakMap<NewFamily, string>()

/** Nothing has happened to the job that its row would tell. */
function isBlank(story: Story): boolean {
  return (
    story.attempt === 0 &&
    story.crashes === 0 &&
    story.retryDelay === 0 &&
    story.attempts.length === 0 &&
    (story.readyAt ?? story.startedAt ?? story.result ?? story.failure ?? story.cause) === undefined &&
    (story.cancelReason ?? story.progress ?? story.logged ?? story.waits ?? story.steps) === undefined
  )
}

function toldIn(story: Story): Rest {
  return {
    attempt: story.attempt || undefined,
    crashes: story.crashes || undefined,
    retryDelay: story.retryDelay || undefined,
    readyAt: story.readyAt,
    startedAt: story.startedAt,
    result: story.result,
    failure: story.failure,
    cause: story.cause,
    cancelReason: story.cancelReason,
    progress: story.progress,
    attempts: story.attempts.length === 0 ? undefined : story.attempts,
    logged: story.logged,
    waits: story.waits,
    waiter: story.waits === undefined ? undefined : story.waiter,
    stepped: story.steps === undefined ? undefined : true,
  } as Rest
}

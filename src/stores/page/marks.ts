import type { JobRow, StoredJob } from './job-row.js'

/** What a job is found by; see `mark` in the schema. */
export interface Mark {
  readonly mark: string
  readonly state: number
  readonly rank: number
  readonly seq: number
}

/** Unlike all tags and fields. */
export function causeMark(cause: string): string {
  return `!${cause}`
}

const completed = 5
const dead = 6
const none: Mark[] = []

/** As they are stored, of a row that was read. */
function marksBefore(row: JobRow): Mark[] {
  // Its row says nothing of its end.
  return marksOf(row.expires_at === null ? row : { ...row, state: completed, rank: row.expires_at })
}

function marksOf({ seq, state, rank, tags, search, rest }: StoredJob): Mark[] {
  if (tags === null && search === null && state !== dead) return none
  const marks = new Set<string>([...read(tags), ...read(search)])
  const cause = state === dead ? (JSON.parse(rest ?? '{}') as { cause?: string }).cause : undefined
  if (cause !== undefined) marks.add(causeMark(cause))
  return Array.from(marks, (mark) => ({ mark, state, rank: rank ?? 0, seq }))
}

function read(list: string | null): string[] {
  return list === null ? [] : (JSON.parse(list) as string[])
}

/** Those of the first that are not among the second. */
function marksOnlyIn(marks: readonly Mark[], others: readonly Mark[]): Mark[] {
  return marks.filter(
    ({ mark, state, rank }) =>
      !others.some((other) => other.mark === mark && other.state === state && other.rank === rank),
  )
}

/** Those of jobs that a try has looked at: what they are no longer found by, and what they are now. */
export class MarkChanges {
  readonly gone: Mark[] = []
  readonly come: Mark[] = []

  see(row: JobRow | undefined, stored: StoredJob | undefined): void {
    const before = row === undefined ? [] : marksBefore(row)
    const after = stored === undefined ? [] : marksOf(stored)
    this.gone.push(...marksOnlyIn(before, after))
    this.come.push(...marksOnlyIn(after, before))
  }
}

/**
 * Those who read: nothing skipped, nothing twice, nothing out of order. One that follows all streams gets them by position;
 * a projection in parts gets each stream in its order, and a read model is what the events of the log come to.
 */
import { digests, type KeptEvent, type Total } from './book.js'
import { type Accuse, accuseOf, type EventsEvidence, eventsOf } from './evidence.js'

export interface ReaderCounts {
  readonly missing: number
  readonly again: number
}

interface Seen {
  readonly position: number
  readonly key: string
}

/** From the first event to the last, in one life of a process. */
export function checkFollowers({ events, kept, followers }: EventsEvidence, accuse: Accuse): ReaderCounts[] {
  return followers.map((reader) => {
    const seen = eventsOf(events, 'seen')
      .filter((event) => event.reader === reader)
      .flatMap((event) => event.events.map(([position, key]) => ({ position, key })))
    return checkReader(reader, [seen], kept, kept, accuse)
  })
}

/** Each generation that there was; the live ones have seen everything. */
export function checkProjections(
  { kept, sightings, models }: EventsEvidence,
  accuse: Accuse,
): ReaderCounts[] {
  const streams = new Map(kept.map(({ position, stream }) => [position, stream]))
  const readers = new Map(
    models.map(({ name, generation }) => [`${name} ${generation}`, new Map<string, Seen[]>()]),
  )
  const live = new Set(readers.keys())
  for (const { reader, generation, position, key } of sightings) {
    const name = `${reader} ${generation}`
    const lines = readers.get(name) ?? new Map<string, Seen[]>()
    readers.set(name, lines)
    const stream = streams.get(position) ?? 'none'
    const line = lines.get(stream) ?? []
    lines.set(stream, line)
    line.push({ position, key })
  }
  return [...readers].map(([name, lines]) => {
    const due = live.has(name) ? kept : upToTheLast(kept, lines)
    return checkReader(name, [...lines.values()], due, kept, accuse)
  })
}

/** What a generation that has been replaced cannot have missed: of each stream all up to the last that it saw. */
function upToTheLast(kept: readonly KeptEvent[], lines: ReadonlyMap<string, readonly Seen[]>): KeptEvent[] {
  const last = new Map(
    [...lines].map(([stream, line]) => [stream, Math.max(...line.map(({ position }) => position))]),
  )
  return kept.filter(({ stream, position }) => position <= (last.get(stream) ?? 0))
}

function checkReader(
  name: string,
  lines: readonly (readonly Seen[])[],
  due: readonly KeptEvent[],
  kept: readonly KeptEvent[],
  accuse: Accuse,
): ReaderCounts {
  const keys = new Map(kept.map(({ position, key }) => [position, key]))
  const known = new Set<number>()
  const again: string[] = []
  const wrong: string[] = []
  const late: string[] = []
  for (const line of lines) {
    let before = 0
    for (const { position, key } of line) {
      if (keys.get(position) !== key) wrong.push(`${key} at ${position}, where ${keys.get(position)} is`)
      if (known.has(position)) again.push(`${position}`)
      else if (position < before) late.push(`${position} after ${before}`)
      known.add(position)
      before = Math.max(before, position)
    }
  }
  const missing = due.filter(({ position }) => !known.has(position)).map(({ position }) => `${position}`)
  accuseOf(accuse, 'I12', missing, `events were skipped by ${name}`)
  accuseOf(accuse, 'I12', again, `events came to ${name} again`)
  accuseOf(accuse, 'I12', late, `events came to ${name} out of order`)
  accuseOf(accuse, 'I12', wrong, `events came to ${name} that are not in the log`)
  return { missing: missing.length, again: again.length }
}

/** What the events of the log come to. */
export function checkModels({ kept, models }: EventsEvidence, accuse: Accuse): void {
  const right = foldOf(kept)
  for (const { table, totals } of models) {
    const found = new Map(totals.map((total) => [total.stream, total]))
    const streams = [...new Set([...right.keys(), ...found.keys()])]
    const wrong = streams.filter((stream) => !isSame(right.get(stream), found.get(stream)))
    accuseOf(accuse, 'I12', wrong, `streams are not what their events come to in ${table}`)
  }
}

function foldOf(kept: readonly KeptEvent[]): Map<string, Total> {
  const totals = new Map<string, Total>()
  for (const { stream, amount, version } of kept) {
    const { count, sum, digest } = totals.get(stream) ?? { count: 0, sum: 0, digest: 0 }
    totals.set(stream, {
      stream,
      count: count + 1,
      sum: sum + amount,
      digest: (digest * digests.factor + amount) % digests.modulus,
      version,
    })
  }
  return totals
}

function isSame(a: Total | undefined, b: Total | undefined): boolean {
  return a?.count === b?.count && a?.sum === b?.sum && a?.digest === b?.digest && a?.version === b?.version
}

/** One for each event that leads to one. */
export function checkJobs({ kept, jobs }: EventsEvidence, accuse: Accuse): ReaderCounts {
  if (jobs === undefined) return { missing: 0, again: 0 }
  const due = kept.filter(({ type }) => type === 'ordered').map(({ key }) => key)
  const found = new Set(jobs)
  const missing = due.filter((key) => !found.has(key))
  const wanted = new Set(due)
  const again = jobs.filter((key, i) => jobs.indexOf(key) !== i)
  accuseOf(accuse, 'I12', missing, 'events have no job')
  accuseOf(accuse, 'I12', again, 'events have several jobs')
  accuseOf(
    accuse,
    'I12',
    jobs.filter((key) => !wanted.has(key)),
    'jobs have no event',
  )
  return { missing: missing.length, again: again.length }
}

/**
 * The log itself: what was acknowledged is there, whole, where the caller was told, and nothing that was rolled back;
 * versions have no gaps and follow the positions; each append found the version that it expected, and who was refused did
 * not.
 */
import type { KeptEvent } from './book.js'
import { type Accuse, accuseOf, type EventsEvidence, eventsOf } from './evidence.js'
import { type DoneAppend, keysOf, type TriedAppend } from './history.js'

interface Given {
  readonly append: TriedAppend
  acked: DoneAppend | undefined
  undone: boolean
  refusedAt: number | undefined
  readonly kept: KeptEvent[]
}

export function checkAppends(
  evidence: Pick<EventsEvidence, 'events' | 'kept'>,
  accuse: Accuse,
): { doubtful: number; lost: number } {
  const given = givenOf(evidence)
  checkStreams(evidence.kept, accuse)
  const all = [...given.values()]
  const kept = all.filter((one) => one.kept.length > 0)
  const gone = all.filter(({ acked, kept }) => acked !== undefined && kept.length === 0)
  accuseOf(accuse, 'I1', gone.map(nameOf), 'acknowledged appends are gone')
  accuseOf(
    accuse,
    'I2',
    kept.filter(({ undone }) => undone).map(nameOf),
    'appends are there that were undone',
  )
  accuseOf(accuse, 'I2', unknownIn(evidence.kept, given), 'events that nobody appended, or twice')
  accuseOf(
    accuse,
    'I12',
    kept.filter((one) => !isWhole(one)).map(nameOf),
    'appends are there in part, or torn',
  )
  accuseOf(
    accuse,
    'I12',
    kept.filter((one) => !isAsTold(one)).map(nameOf),
    'appends are not where the caller was told',
  )
  accuseOf(
    accuse,
    'I12',
    kept.filter((one) => !isExpected(one)).map(nameOf),
    'appends met another version than they expected',
  )
  accuseOf(
    accuse,
    'I12',
    all.filter(isWronglyRefused).map(nameOf),
    'appends were refused that met what they expected',
  )
  accuseOf(accuse, 'I12', sharedWins(all), 'expected versions have several winners')
  return {
    doubtful: kept.filter(({ acked }) => acked === undefined).length,
    lost: gone.reduce((sum, { append }) => sum + append.size, 0),
  }
}

function givenOf({ events, kept }: Pick<EventsEvidence, 'events' | 'kept'>): Map<string, Given> {
  const given = new Map<string, Given>()
  for (const { appends } of eventsOf(events, 'tried'))
    for (const append of appends)
      given.set(append.id, { append, acked: undefined, undone: false, refusedAt: undefined, kept: [] })
  for (const event of events) {
    if (event.e === 'committed')
      for (const done of event.appends)
        change(done.id, (one) => {
          one.acked = done
        })
    if (event.e === 'undone')
      for (const id of event.ids)
        change(id, (one) => {
          one.undone = true
        })
    if (event.e === 'refused')
      change(event.id, (one) => {
        one.refusedAt = event.actual
      })
  }
  for (const event of kept) given.get(idOf(event.key))?.kept.push(event)
  return given

  function change(id: string, how: (one: Given) => void): void {
    const one = given.get(id)
    if (one !== undefined) how(one)
  }
}

function idOf(key: string): string {
  return key.slice(0, key.lastIndexOf(':'))
}

function nameOf({ append: { id, stream, expected } }: Given): string {
  return `${id} to ${stream} at ${expected}`
}

function checkStreams(kept: readonly KeptEvent[], accuse: Accuse): void {
  const versions = new Map<string, number>()
  const wrong: string[] = []
  for (const { stream, version } of kept) {
    const before = versions.get(stream) ?? 0
    if (version !== before + 1) wrong.push(`${stream}@${version} after ${before}`)
    versions.set(stream, version)
  }
  accuseOf(accuse, 'I12', wrong, 'events are not the next of their stream')
}

function unknownIn(kept: readonly KeptEvent[], given: ReadonlyMap<string, Given>): string[] {
  const seen = new Set<string>()
  return kept.map(({ key }) => key).filter((key) => seen.size === seen.add(key).size || !given.has(idOf(key)))
}

/** All of its events, one after the other. */
function isWhole({ append, kept }: Given): boolean {
  const keys = keysOf(append)
  const first = kept[0]?.version ?? 0
  return (
    kept.length === keys.length &&
    kept.every(
      ({ key, stream, version }, i) => key === keys[i] && stream === append.stream && version === first + i,
    )
  )
}

function isAsTold({ acked, kept }: Given): boolean {
  const last = kept.at(-1)
  return acked === undefined || (acked.version === last?.version && acked.position === last.position)
}

function isExpected({ append, kept }: Given): boolean {
  const met = (kept[0]?.version ?? 1) - 1
  return doesMatch(append, met)
}

function isWronglyRefused({ append, refusedAt }: Given): boolean {
  return refusedAt !== undefined && doesMatch(append, refusedAt)
}

function doesMatch({ expected }: TriedAppend, version: number): boolean {
  if (expected === 'any') return true
  if (expected === 'exists') return version > 0
  return version === (expected === 'none' ? 0 : expected)
}

/** Acknowledged, whatever is kept. */
function sharedWins(all: readonly Given[]): string[] {
  const wins = new Map<string, number>()
  for (const { append, acked } of all) {
    const { stream, expected } = append
    if (acked === undefined || expected === 'any' || expected === 'exists') continue
    const what = `${stream} at ${expected === 'none' ? 0 : expected}`
    wins.set(what, (wins.get(what) ?? 0) + 1)
  }
  return [...wins].filter(([, count]) => count > 1).map(([what]) => what)
}

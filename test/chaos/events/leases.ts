/**
 * Who may move a checkpoint. A lease is stale once another has got the part: what is written under it must be refused.
 * Checkpoints never go back. And what a lost process had must be another's in time.
 */
import { type Accuse, accuseOf, type EventsEvidence, eventsOf } from './evidence.js'

interface Lease {
  readonly part: string
  readonly by: string
  readonly token: string
  /** When it was asked for, and when it was known to be there: it was taken at some moment between. */
  readonly asked: number
  readonly from: number
  endedAt: number | undefined
}

export function checkLeases(
  evidence: Pick<EventsEvidence, 'events' | 'losses' | 'endedAt' | 'limits' | 'models'>,
  accuse: Accuse,
): { staleAttempts: number; refusedStale: number; recoveries: readonly number[] } {
  const leases = leasesOf(evidence)
  const { stale, accepted } = checkStale(evidence, leases)
  accuseOf(accuse, 'I3', accepted, 'stale checkpoints were accepted')
  checkPositions(evidence, accuse)
  return {
    staleAttempts: stale,
    refusedStale: stale - accepted.length,
    recoveries: checkRecovery(evidence, leases, accuse),
  }
}

/** By part, in the order in which they were taken. */
function leasesOf({ events }: Pick<EventsEvidence, 'events'>): Map<string, Lease[]> {
  const byPart = new Map<string, Lease[]>()
  for (const event of events) {
    if (event.e !== 'held' && event.e !== 'advance-result') continue
    const { part, token, t, by = '' } = event
    const leases = byPart.get(part) ?? []
    byPart.set(part, leases)
    const known = leases.find((lease) => lease.token === token)
    if (event.e === 'held') {
      if (known === undefined)
        leases.push({ part, by, token, asked: event.asked, from: t, endedAt: undefined })
    } else if (known !== undefined && event.done && event.result === 'advanced') known.endedAt = t
  }
  return byPart
}

/** Tried although another had the part by then, or has had it, for certain. */
function checkStale(
  { events }: Pick<EventsEvidence, 'events'>,
  leases: ReadonlyMap<string, readonly Lease[]>,
): { stale: number; accepted: string[] } {
  const tried = new Set<string>()
  const accepted: string[] = []
  let stale = 0
  for (const event of events) {
    if (event.e !== 'advance-try' && event.e !== 'advance-result') continue
    const { part, token, position, by } = event
    const name = `${part} ${token} ${position}`
    if (event.e === 'advance-try') {
      const own = leases.get(part)?.find((lease) => lease.token === token)
      const isStale = own && leases.get(part)?.some(({ asked, from }) => asked > own.from && from < event.t)
      if (isStale) tried.add(name)
    } else if (tried.has(name)) {
      stale++
      if (event.result === 'advanced') accepted.push(`${part} to ${position} by ${by}`)
      tried.delete(name)
    }
  }
  return { stale, accepted }
}

/** Whoever takes a part finds it where others had moved it before he asked. */
function checkPositions({ events }: Pick<EventsEvidence, 'events'>, accuse: Accuse): void {
  const moves = new Map<string, { readonly t: number; readonly position: number }[]>()
  for (const event of events) {
    if (event.e !== 'advance-result' || event.result !== 'advanced') continue
    const { part, t, position } = event
    const list = moves.get(part) ?? []
    moves.set(part, list)
    list.push({ t, position })
  }
  const back = eventsOf(events, 'held').flatMap(({ part, asked, position }) => {
    const before = moves.get(part)?.findLast(({ t }) => t < asked)?.position ?? 0
    return position < before ? [`${part} from ${before} to ${position}`] : []
  })
  accuseOf(accuse, 'I12', back, 'checkpoints went back')
}

/** I13. A generation that is no longer live has nothing to be taken. */
function checkRecovery(
  { losses, endedAt, limits, models }: Pick<EventsEvidence, 'losses' | 'endedAt' | 'limits' | 'models'>,
  leases: ReadonlyMap<string, readonly Lease[]>,
  accuse: Accuse,
): readonly number[] {
  const live = new Set(models.map(({ name, generation }) => `${name} ${generation}`))
  const recoveries: number[] = []
  const left: string[] = []
  for (const { name, t } of losses) {
    for (const [part, list] of leases) {
      // Who had the part last.
      const held = list.filter(({ from }) => from <= t).at(-1)
      if (held?.by !== name || (held.endedAt ?? Infinity) <= t) continue
      const next = list.find(({ by, from }) => by !== name && from > t)
      if (next !== undefined) recoveries.push(next.from - t)
      const isLive = live.has(part.slice(0, part.lastIndexOf(' ')))
      if (isLive && (next?.from ?? endedAt) - t > limits.recoveryMs) left.push(`${part} of ${name}`)
    }
  }
  accuseOf(accuse, 'I13', left, `parts of lost processes were not another’s within ${limits.recoveryMs} ms`)
  return recoveries.sort((a, b) => a - b)
}

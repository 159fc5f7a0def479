/**
 * Who may settle what. A claim is stale once another one has got a row of it: what is settled under it must be refused. That
 * there are two at all is a fault of its own, unless a relay was stopped or lost its connection. And what a lost relay had
 * claimed must be claimed again.
 */
import { type Accuse, type OutboxEvidence, some } from './evidence.js'

interface Claim {
  readonly by: string
  readonly at: number
  readonly rows: readonly string[]
  tried: number | undefined
  ended: number | undefined
  isAccepted: boolean
}

export function checkClaims(
  evidence: Pick<OutboxEvidence, 'events' | 'losses' | 'limits' | 'hasZombies'>,
  accuse: Accuse,
): { staleAttempts: number; refusedStale: number; recoveries: readonly number[] } {
  const claims = claimsOf(evidence)
  const byRow = new Map<string, Claim[]>()
  for (const claim of claims) {
    for (const row of claim.rows) byRow.set(row, [...(byRow.get(row) ?? []), claim])
  }
  const stale = claims.filter((claim) => isStale(claim, byRow))
  const accepted = stale.filter(({ isAccepted }) => isAccepted)
  if (accepted.length > 0)
    accuse('I3', `${accepted.length} stale settlements were accepted: ${some(accepted.map(({ by }) => by))}`)
  if (stale.length > 0 && !evidence.hasZombies)
    accuse('I4', `${stale.length} claims of which another had rows too: ${some(stale.map(({ by }) => by))}`)
  return {
    staleAttempts: stale.length,
    refusedStale: stale.length - accepted.length,
    recoveries: checkRecovery(evidence, claims, byRow, accuse),
  }
}

function claimsOf({ events }: Pick<OutboxEvidence, 'events'>): Claim[] {
  const claims = new Map<string, Claim>()
  const of = ({ by = '', claim }: { by?: string; claim: string }) => claims.get(`${by} ${claim}`)
  for (const event of events) {
    if (event.e === 'claimed') {
      const { by = '', claim, t, rows } = event
      claims.set(`${by} ${claim}`, { by, at: t, rows, tried: undefined, ended: undefined, isAccepted: false })
    }
    const known = event.e === 'settle-try' || event.e === 'settle-result' ? of(event) : undefined
    if (known === undefined) continue
    if (event.e === 'settle-try') known.tried ??= event.t
    if (event.e === 'settle-result') {
      known.ended ??= event.t
      known.isAccepted ||= event.result === 'settled'
    }
  }
  return [...claims.values()]
}

/** Answered, although another had got one of its rows before it was even tried. */
function isStale(claim: Claim, byRow: ReadonlyMap<string, readonly Claim[]>): boolean {
  const { tried, ended, at, rows } = claim
  if (tried === undefined || ended === undefined) return false
  return rows.some((row) =>
    byRow.get(row)?.some((other) => other !== claim && other.at > at && other.at < tried),
  )
}

/** I13. */
function checkRecovery(
  { losses, limits }: Pick<OutboxEvidence, 'losses' | 'limits'>,
  claims: readonly Claim[],
  byRow: ReadonlyMap<string, readonly Claim[]>,
  accuse: Accuse,
): readonly number[] {
  const recoveries: number[] = []
  const left: string[] = []
  for (const { name, t } of losses) {
    const held = claims.filter(({ by, at, ended }) => by === name && at <= t && (ended ?? Infinity) > t)
    for (const { rows, tried, at: since } of held) {
      for (const row of rows) {
        if (byRow.get(row)?.some(({ at }) => at > since && at <= t)) continue // it was not its own any more
        const next = byRow.get(row)?.find((other) => other.by !== name && other.at > t)
        if (next !== undefined) recoveries.push(next.at - t)
        // Nobody knows whether what was on its way was settled.
        const isSure = tried === undefined || tried > t
        if (isSure && (next === undefined || next.at - t > limits.recoveryMs)) left.push(`${row} of ${name}`)
      }
    }
  }
  if (left.length > 0)
    accuse(
      'I13',
      `${left.length} rows of lost relays were not another's within ${limits.recoveryMs} ms: ${some(left)}`,
    )
  return recoveries.sort((a, b) => a - b)
}

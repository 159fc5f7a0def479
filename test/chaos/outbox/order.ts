/**
 * In which order what has a key may arrive. What an outbox promises: each arrives for the first time after all before it
 * have. What comes again is a part of the line, in order: a batch has no gaps and never goes back. And where no relay lives
 * on that has lost its rows, nothing is left out from one delivery to the next either: after a step back, all that had
 * come before comes again.
 */
import type { Kind } from 'millrace/outbox'
import { type Accuse, type OutboxEvidence, some } from './evidence.js'
import { isPoison } from './orders.js'

interface Line {
  /** How many have arrived: the places below. */
  arrived: number
  /** Place of the last delivery. */
  last: number
  readonly byBatch: Map<string, number>
}

export function checkOrder(
  kind: Kind,
  { orders, deliveries, hasZombies }: Pick<OutboxEvidence, 'orders' | 'deliveries' | 'hasZombies'>,
  accuse: Accuse,
): void {
  const places = placesOf(kind, orders)
  const lines = new Map<string, Line>()
  const early: string[] = []
  const gaps: string[] = []
  const skipped: string[] = []
  for (const delivery of deliveries) {
    const at = delivery.kind === kind ? places.get(delivery.id) : undefined
    if (at === undefined) continue
    const { key, place } = at
    const line = lines.get(key) ?? { arrived: 0, last: -1, byBatch: new Map() }
    lines.set(key, line)
    const name = `${key} ${place} by ${delivery.by}`
    if (place > line.arrived) early.push(`${name}, before ${line.arrived}`)
    const before = line.byBatch.get(delivery.batch)
    if (before !== undefined && place !== before + 1) gaps.push(`${name}, after ${before}`)
    if (!hasZombies && place > line.last + 1 && place <= line.arrived)
      skipped.push(`${name}, after ${line.last}`)
    line.byBatch.set(delivery.batch, place)
    line.arrived = Math.max(line.arrived, place + 1)
    line.last = place
  }
  if (early.length > 0)
    accuse('I12', `${early.length} ${kind}s overtook others of their keys: ${some(early)}`)
  if (gaps.length > 0) accuse('I12', `${gaps.length} ${kind}s not in order in their batch: ${some(gaps)}`)
  if (skipped.length > 0)
    accuse('I12', `${skipped.length} ${kind}s came again without those before: ${some(skipped)}`)
}

/** Where each is in the line of its key, without those that never arrive. */
function placesOf(kind: Kind, orders: OutboxEvidence['orders']): Map<string, { key: string; place: number }> {
  const places = new Map<string, { key: string; place: number }>()
  const counts = new Map<string, number>()
  for (const { id, key } of [...orders].sort((a, b) => a.n - b.n)) {
    if (key === undefined || isPoison(kind, id)) continue
    const place = counts.get(key) ?? 0
    counts.set(key, place + 1)
    places.set(id, { key, place })
  }
  return places
}

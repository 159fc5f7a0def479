import { backoffDelay, type CompiledBackoff } from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import { describeFailure } from '../core/failure.js'
import { clean } from '../core/text.js'
import { lineOf, type Row, type Verdict } from './store.js'
import type { Delivery } from './target.js'

export interface JudgePolicy {
  readonly attempts: number
  readonly backoff: CompiledBackoff
  readonly random: () => number
}

/**
 * What becomes of rows, by what the target said of each. Once one of a line stays, those behind it stay too, even if the
 * target took them: whoever reads the line then sees them once more, in their order.
 */
export function judge(rows: readonly Row[], deliveries: readonly Delivery[], policy: JudgePolicy): Verdict[] {
  const begun = new Set<string>()
  const stuck = new Set<string>()
  const freed = new Set<string>()
  return rows.map((row, i) => {
    const line = lineOf(row)
    if (stuck.has(line)) return { do: 'leave' }
    // What has failed before is the first of its line, so the next ones begin anew.
    const before = begun.has(line) ? 0 : (row.attempts ?? 0)
    begun.add(line)
    const delivery = deliveries[i] ?? notTold
    // The target had held it back behind one that is set aside now.
    const isFree = freed.has(line) && delivery !== 'done' && delivery.status === 'failed'
    const verdict: Verdict = isFree ? { do: 'leave' } : verdictOn(delivery, before, policy)
    if (verdict.do === 'hold' || verdict.do === 'leave') stuck.add(line)
    if (verdict.do === 'set aside') freed.add(line)
    return verdict
  })
}

function verdictOn(delivery: Delivery, before: number, policy: JudgePolicy): Verdict {
  if (delivery === 'done') return { do: 'done' }
  const failure = textOf(delivery.error)
  // A target that is in trouble is no fault of the row: it counts for nothing, however long it takes.
  const attempts = delivery.status === 'refused' ? before + 1 : before
  if (attempts >= policy.attempts) return { do: 'set aside', attempts, failure }
  const delay = backoffDelay(
    policy.backoff,
    { attempt: Math.max(1, attempts), previous: 0, error: undefined },
    policy.random,
  )
  return { do: 'hold', delay, attempts, failure }
}

const notTold: Delivery = { status: 'failed', error: new Error('the publisher said nothing of this message') }

export function textOf(error: unknown): string {
  const { name, message, code } = describeFailure('outbox', error)
  return clean(code === undefined ? `${name}: ${message}` : `${code}: ${message}`, bounds.attemptText)
}

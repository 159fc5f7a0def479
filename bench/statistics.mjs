// From the figures of the rounds to one row of the table. Pure.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length === 0) throw new Error('no values')
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** The value that `share` of all values do not exceed: 0.5 is the median, 0.99 nearly the slowest. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b)
  if (sorted.length === 0) throw new Error('no values')
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]
}

/** A bar that more is better for, such as throughput. */
export const atLeast = (bar, goal) => ({ sign: '≥', bar, goal })
/** A bar that less is better for, such as cost. */
export const atMost = (bar, goal) => ({ sign: '≤', bar, goal })

export function meets(ratio, { sign, bar }) {
  return sign === '≥' ? ratio >= bar : ratio <= bar
}

/**
 * The ratio is always Millrace divided by the peer, and is taken inside each round, where both sides saw the
 * same machine; the median of those ratios counts. So it need not equal the quotient of the two medians.
 *
 * `rounds` holds `{ millrace, peer }`, one of them undefined where the other is shown alone. Without rounds there are
 * no figures.
 */
export function summarize(rounds, bar) {
  const [millrace, peer] = [middle(rounds, 'millrace'), middle(rounds, 'peer')]
  const alone = millrace === null || peer === null
  const ratios = alone ? [] : rounds.map((round) => round.millrace / round.peer)
  const ratio = alone ? null : median(ratios)
  return {
    millrace,
    peer,
    ratio,
    rounds: rounds.length,
    spread: alone ? null : [Math.min(...ratios), Math.max(...ratios)],
    bar: bar === undefined ? null : `${bar.sign} ${bar.bar}`,
    goal: bar?.goal ?? null,
    met: bar === undefined || ratio === null ? null : meets(ratio, bar),
  }
}

function middle(rounds, side) {
  const values = rounds.map((round) => round[side])
  return values.length === 0 || values.includes(undefined) ? null : median(values)
}

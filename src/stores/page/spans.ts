/** Positions as pairs of a first and a last one, ascending: many that follow each other take two numbers. */
export type Spans = readonly number[]

export function covers(spans: Spans, seq: number): boolean {
  // The first pair that ends there or later.
  let low = 0
  let high = spans.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if ((spans[2 * middle + 1] as number) < seq) low = middle + 1
    else high = middle
  }
  return low < spans.length / 2 && (spans[2 * low] as number) <= seq
}

export function spansOf(seqs: Iterable<number>): number[] {
  const spans: number[] = []
  for (const seq of [...seqs].sort((a, b) => a - b)) {
    if (spans.length > 0 && spans[spans.length - 1] === seq - 1) spans[spans.length - 1] = seq
    else spans.push(seq, seq)
  }
  return spans
}

export function without(spans: Spans, seqs: Iterable<number>): number[] {
  const left: number[] = []
  const cuts = [...seqs].sort((a, b) => a - b)
  let at = 0
  for (let i = 0; i < spans.length; i += 2) {
    let first = spans[i] as number
    const last = spans[i + 1] as number
    while (at < cuts.length && (cuts[at] as number) < first) at++
    for (; at < cuts.length && (cuts[at] as number) <= last; at++) {
      const cut = cuts[at] as number
      if (cut > first) left.push(first, cut - 1)
      first = cut + 1
    }
    if (first <= last) left.push(first, last)
  }
  return left
}

export function together(a: Spans, b: Spans): number[] {
  const pairs: [number, number][] = []
  for (const spans of [a, b])
    for (let i = 0; i < spans.length; i += 2) pairs.push([spans[i] as number, spans[i + 1] as number])
  const merged: number[] = []
  for (const [first, last] of pairs.sort((x, y) => x[0] - y[0])) {
    if (merged.length > 0 && merged[merged.length - 1] === first - 1) merged[merged.length - 1] = last
    else merged.push(first, last)
  }
  return merged
}

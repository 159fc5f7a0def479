import type { Database } from '../../databases/sqlite/connection.js'

/** Where jobs stand in line: side by side, or, with a list, here and there between two of them. */
export interface Positions {
  readonly from: number
  readonly to: number
  readonly list: string | undefined
}

export function only(seq: number): Positions {
  return { from: seq, to: seq, list: undefined }
}

/** Side by side costs less, whatever the order in which the jobs ended. */
export function positionsOf(seqs: readonly number[]): Positions {
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  for (const seq of seqs) {
    if (seq < from) from = seq
    if (seq > to) to = seq
  }
  const sideBySide = to - from + 1 === seqs.length && new Set(seqs).size === seqs.length
  return { from, to, list: sideBySide ? undefined : `[${seqs.join(',')}]` }
}

/** A statement about jobs at positions, which it names with `BETWEEN ? AND ?`. */
export function prepareAt<Row>(db: Database, text: string): AtPositions<Row> {
  const range = db.prepare<unknown[], Row>(text)
  const list = db.prepare<unknown[], Row>(
    text.replace('BETWEEN ? AND ?', 'IN (SELECT value FROM json_each(?))'),
  )
  const pick = (positions: Positions) => (positions.list === undefined ? range : list)
  const values = (positions: Positions) =>
    positions.list === undefined ? [positions.from, positions.to] : [positions.list]
  return {
    run: (before, positions, after = none) => pick(positions).run(...before, ...values(positions), ...after),
    get: (before, positions, after = none) => pick(positions).get(...before, ...values(positions), ...after),
    all: (before, positions, after = none) => pick(positions).all(...before, ...values(positions), ...after),
  }
}

interface AtPositions<Row> {
  run(before: readonly unknown[], positions: Positions, after?: readonly unknown[]): void
  get(before: readonly unknown[], positions: Positions, after?: readonly unknown[]): Row | undefined
  all(before: readonly unknown[], positions: Positions, after?: readonly unknown[]): Row[]
}

const none: readonly unknown[] = []

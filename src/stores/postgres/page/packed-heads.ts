import type { HeadRow } from '../../page/heads.js'

/** What load.sql tells of those at the head of a place. */
export interface PackedHeads {
  readonly seqs: string | null
  readonly ranks: string
  readonly kinds: string
  readonly hows: string
}

export function unpackHeads(place: number, { seqs, ranks, kinds, hows }: PackedHeads): HeadRow[] {
  if (seqs === null) return []
  const rank = ranks.split(',')
  const kind = kinds.split(',')
  const how = hows.split(',')
  return seqs.split(',').map((seq, i) => ({
    seq: Number(seq),
    rank: Number(rank[i]),
    kind: Number(kind[i]),
    place,
    how: how[i] as string,
  }))
}

import { isPlainChild, type NewFamily } from '../../core/family.js'
import { parse } from './parse.js'

/** What a job's row says of its family. Most children have one parent and nothing else to tell: no text then. */
export interface Kin {
  readonly family: string | null
  readonly parent: number | null
}

export interface StoredFamily {
  readonly flow: string
  readonly node: string | null
  /** Positions; of one alone, the row says it. */
  readonly parents: readonly number[]
}

/** A job of a family, as its row is. */
export interface JobAt extends Kin {
  readonly seq: number
  readonly id: string
  readonly kind: number
  readonly state: number
  readonly failure: string | null
  readonly cause: string | null
  /** Why it is to stop. */
  readonly reason: string | null
}

export const nobody: Kin = { family: null, parent: null }

export function alone(id: string): StoredFamily {
  return { flow: id, node: null, parents: [] }
}

export function kinOf(own: NewFamily, parents: readonly number[]): Kin {
  const parent = parents.length === 1 ? (parents[0] as number) : null
  if (parent !== null && isPlainChild(own)) return { family: null, parent }
  const { flow, node = null } = own
  const others = parent === null ? parents : []
  return { family: JSON.stringify({ flow, node, parents: others } satisfies StoredFamily), parent }
}

/** Positions of its parents. */
export function parentsOf({ family, parent }: Kin): readonly number[] {
  if (parent !== null) return [parent]
  return family === null ? [] : (parse<StoredFamily>(family)?.parents ?? [])
}

/** What a parent's row says. */
export interface Counts {
  readonly children: number
  readonly waiting: number
  readonly fanned: number
  readonly failed: number
  readonly open: number
  readonly alarmed: number
  readonly replays: number
  readonly compensated: number
}

export const childless: Counts = {
  children: 0,
  waiting: 0,
  fanned: 0,
  failed: 0,
  open: 0,
  alarmed: 0,
  replays: 0,
  compensated: 0,
}

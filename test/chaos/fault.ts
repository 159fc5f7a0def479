import { Arena, type ArenaOptions } from './arena.js'
import type { EngineName } from './engine.js'
import type { Ground } from './place.js'
import type { Row } from './row.js'
import type { AttackOptions } from './scene.js'

/** On engines of `E`, whose runs share a `G`. */
export interface Fault<E extends string = EngineName, G = Ground> {
  readonly name: string
  /** Its part of all kills; 0 for faults that kill nobody. */
  readonly weight: number
  /** Where it makes sense; everywhere, when not given. */
  readonly engines?: readonly E[]
  run(options: AttackOptions<E, G>): Promise<Row>
}

/** A fault on one store. */
export function fault(
  name: string,
  weight: number,
  body: (arena: Arena) => Promise<Row>,
  engines?: readonly EngineName[],
): Fault {
  return { name, weight, ...(engines && { engines }), run: (options) => inArena(options, body) }
}

export async function inArena(options: ArenaOptions, body: (arena: Arena) => Promise<Row>): Promise<Row> {
  const arena = new Arena(options)
  try {
    return await body(arena)
  } finally {
    await arena.close()
  }
}

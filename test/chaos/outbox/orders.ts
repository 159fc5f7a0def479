/** What the business of the runs is: orders, each with a job and a message that have its id. */
import { randomUUID } from 'node:crypto'
import type { Kind } from 'millrace/outbox'
import type { Random } from '../random.js'

export interface Order {
  readonly id: string
  /** Those with one are counted by it, without gaps, by transactions that wait for each other. */
  readonly key: string | undefined
  readonly n: number
}

/** What goes with the job and the message of an order. */
export interface Errand {
  readonly order: string
  readonly key: string | undefined
  readonly n: number
}

/** Which of the two is always refused; an id says so. */
export type Poison = Kind | 'none'

export function newOrderId(poison: Poison): string {
  return poison === 'none' ? randomUUID() : `${randomUUID()}:bad-${poison}`
}

export function isPoison(kind: Kind, id: string): boolean {
  return id.endsWith(`:bad-${kind}`)
}

/** As most programs have it: some need no order, and a few are busier than others. */
export function pickKey(random: Random): string | undefined {
  if (random.chance(0.15)) return undefined
  return random.chance(0.3) ? `busy-${random.integer(0, 2)}` : `key-${random.integer(0, 23)}`
}

import { MillraceError } from '../../../core/errors.js'
import type { LogTransaction } from '../../log.js'

/** A transaction of a memory log; it is its own `tx`. */
export class MemoryTransaction implements LogTransaction {
  readonly #end: (commits: boolean) => void
  readonly #effects: (() => void)[] = []
  #open = true

  constructor(end: (commits: boolean) => void) {
    this.#end = end
  }

  get tx(): this {
    return this
  }

  /** Of what is done when it commits. */
  add(effect: () => void): void {
    this.#effects.push(effect)
  }

  async commit(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    for (const effect of this.#effects) effect()
    this.#end(true)
  }

  async rollback(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    this.#end(false)
  }

  refuseWhenEnded(): void {
    if (!this.#open) throw notOne('a transaction that has ended')
  }
}

export function transactionOf(tx: unknown): MemoryTransaction {
  if (!(tx instanceof MemoryTransaction)) throw notOne('none of this log')
  tx.refuseWhenEnded()
  return tx
}

function notOne(what: string): MillraceError {
  return new MillraceError('STORE_REFUSED', `tx is ${what}; expected an open transaction of the memory log`, {
    field: 'tx',
  })
}

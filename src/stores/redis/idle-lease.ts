import type { ExtendRequest, ExtendResult } from '../../core/store.js'
import type { Connection } from './connection.js'
import { scripts } from './scripts.js'

/**
 * A worker that holds nothing is known for so many of its leases: a claim that takes jobs gives it the usual one, so that nothing
 * is ever held for longer. Half of that is waited before it is renewed.
 */
const idleLeases = 4

/** Renews the leases of workers that hold nothing: by a small script, and seldom while nothing happens. */
export class IdleLeases {
  readonly #connection: Connection
  readonly #now: () => number | ''
  readonly #isListening: () => boolean
  /** Until when each is known for long enough. Monotonic time. */
  #renewed = new Map<string, number>()

  constructor(connection: Connection, now: () => number | '', isListening: () => boolean) {
    this.#connection = connection
    this.#now = now
    this.#isListening = isListening
  }

  /** Something has happened: what the store has under a worker's lease may be something else now. */
  wake(): void {
    if (this.#renewed.size > 0) this.#renewed = new Map()
  }

  /** Undefined when only the desk can: the worker holds something, or the store thinks so. The desk gives it the usual lease. */
  async extend(request: ExtendRequest): Promise<ExtendResult | undefined> {
    const isRenewed = holdsNothing(request) && (await this.#renew(request))
    if (isRenewed) return nothing
    this.#renewed.delete(request.worker)
    return undefined
  }

  async #renew({ worker, lease }: ExtendRequest): Promise<boolean> {
    const renewed = this.#renewed
    if (this.#isListening() && performance.now() < (renewed.get(worker) ?? 0)) return true
    const args = [this.#now(), worker, idleLeases * lease]
    const answer = await this.#connection.run(scripts.renew, args, { durable: false })
    if (answer === 'desk') return false
    // Into the map of before it was asked: whatever has happened since has put another in its place.
    renewed.set(worker, performance.now() + (idleLeases * lease) / 2)
    return true
  }
}

function holdsNothing({ held, inventory }: ExtendRequest): boolean {
  if (held.length > 0 || inventory === undefined) return false
  return inventory.leaving.length === 0 && inventory.claiming.length === 0
}

const nothing: ExtendResult = { lost: [], cancels: [], open: [], strays: [] }

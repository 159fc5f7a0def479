import type { Entry } from './entry.js'

/** A worker and what it holds. Its expiry covers all of its claims: one thing to renew, however many run. */
export class Worker {
  /** Workers are listed in the order in which they came. */
  readonly num: number
  readonly id: string
  expiresAt: number
  /** By token: those that hold jobs, and the latest one, so that its repetition is known in any case. */
  readonly #leases = new Map<string, Lease>()
  #latest: Lease | undefined = undefined

  constructor(num: number, id: string, expiresAt: number) {
    this.num = num
    this.id = id
    this.expiresAt = expiresAt
  }

  leaseOf(token: string): Lease | undefined {
    return this.#leases.get(token)
  }

  newLease(token: string, at: number): Lease {
    if (this.#latest?.size === 0) this.#leases.delete(this.#latest.token)
    const lease = new Lease(this, token, at)
    this.#leases.set(token, lease)
    this.#latest = lease
    return lease
  }

  /** Called when a lease has no jobs any more. */
  ended(lease: Lease): void {
    if (lease !== this.#latest) this.#leases.delete(lease.token)
  }

  /** In the order of the line. */
  held(): Entry[] {
    const entries: Entry[] = []
    for (const lease of this.#leases.values()) {
      for (const entry of lease.held()) entries.push(entry)
    }
    return entries.sort((a, b) => a.seq - b.seq)
  }
}

/** One claim's right to its jobs. */
export class Lease {
  readonly worker: Worker
  readonly token: string
  readonly at: number
  /** As they were claimed, with gaps for those that left. */
  readonly #entries: (Entry | undefined)[] = []
  #size = 0

  constructor(worker: Worker, token: string, at: number) {
    this.worker = worker
    this.token = token
    this.at = at
  }

  get size(): number {
    return this.#size
  }

  add(entry: Entry): void {
    entry.lease = this
    entry.slot = this.#entries.length
    this.#entries.push(entry)
    this.#size++
  }

  drop(entry: Entry): void {
    entry.lease = undefined
    this.#entries[entry.slot] = undefined
    this.#size--
    if (this.#size === 0) this.worker.ended(this)
  }

  held(): Entry[] {
    return this.#entries.filter((entry) => entry !== undefined)
  }
}

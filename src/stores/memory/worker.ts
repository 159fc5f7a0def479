import type { Entry } from '../ledger/entry.js'
import type { Lease, Worker, Workers } from '../ledger/worker.js'

export class MemoryWorkers implements Workers {
  readonly #workers = new Map<string, MemoryWorker>()
  #count = 0

  all(): Iterable<MemoryWorker> {
    return this.#workers.values()
  }

  get(id: string): MemoryWorker | undefined {
    return this.#workers.get(id)
  }

  renew(id: string, expiresAt: number): MemoryWorker {
    let worker = this.#workers.get(id)
    if (worker === undefined) {
      worker = new MemoryWorker(this.#count++, id, expiresAt)
      this.#workers.set(id, worker)
    }
    worker.expiresAt = expiresAt
    return worker
  }

  *lapsed(now: number): Generator<MemoryWorker, void> {
    for (const worker of this.#workers.values()) if (worker.expiresAt <= now) yield worker
  }

  forget({ id }: MemoryWorker): void {
    this.#workers.delete(id)
  }
}

export class MemoryWorker implements Worker {
  /** Workers are listed in the order in which they came. */
  readonly num: number
  readonly id: string
  expiresAt: number
  /** By token: those that hold jobs, and the latest one. */
  readonly #leases = new Map<string, MemoryLease>()
  #latest: MemoryLease | undefined = undefined

  constructor(num: number, id: string, expiresAt: number) {
    this.num = num
    this.id = id
    this.expiresAt = expiresAt
  }

  leaseOf(token: string): MemoryLease | undefined {
    return this.#leases.get(token)
  }

  newLease(token: string, at: number): MemoryLease {
    if (this.#latest?.size === 0) this.#leases.delete(this.#latest.token)
    const lease = new MemoryLease(this, token, at)
    this.#leases.set(token, lease)
    this.#latest = lease
    return lease
  }

  leases(): Iterable<MemoryLease> {
    return this.#leases.values()
  }

  /** Called when a lease has no jobs any more. */
  ended(lease: MemoryLease): void {
    if (lease !== this.#latest) this.#leases.delete(lease.token)
  }

  held(most = Number.POSITIVE_INFINITY): Entry[] {
    const entries: Entry[] = []
    for (const lease of this.#leases.values()) {
      for (const entry of lease.held()) entries.push(entry)
    }
    return entries.sort((a, b) => a.seq - b.seq).slice(0, most)
  }
}

class MemoryLease implements Lease {
  readonly worker: MemoryWorker
  readonly token: string
  readonly at: number
  /** As they were claimed, with gaps for those that left. */
  readonly #entries: (Entry | undefined)[] = []
  #size = 0

  constructor(worker: MemoryWorker, token: string, at: number) {
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

import type { Entry } from './entry.js'

/**
 * All jobs by id: a hash table whose chains run through the entries themselves. A `Map` would do the same,
 * but one that jobs pass through replaces its table again and again, and the old tables, once they have
 * grown old themselves, drag every job they still name into the old generation: a third of the run time
 * of small jobs went into that.
 */
export class Jobs {
  #buckets: (Entry | undefined)[] = new Array<undefined>(1024).fill(undefined)
  #size = 0

  get size(): number {
    return this.#size
  }

  get(id: string): Entry | undefined {
    let entry = this.#buckets[hash(id) & (this.#buckets.length - 1)]
    while (entry !== undefined && entry.job.id !== id) entry = entry.chain
    return entry
  }

  /** The caller has made sure that the id is new. */
  add(entry: Entry): void {
    if (this.#size >= this.#buckets.length) this.#grow()
    this.#link(entry)
    this.#size++
  }

  delete(entry: Entry): void {
    const at = hash(entry.job.id) & (this.#buckets.length - 1)
    let before: Entry | undefined
    let other = this.#buckets[at]
    while (other !== undefined && other !== entry) {
      before = other
      other = other.chain
    }
    if (other === undefined) return
    if (before === undefined) this.#buckets[at] = entry.chain
    else before.chain = entry.chain
    entry.chain = undefined
    this.#size--
  }

  #link(entry: Entry): void {
    const at = hash(entry.job.id) & (this.#buckets.length - 1)
    entry.chain = this.#buckets[at]
    this.#buckets[at] = entry
  }

  #grow(): void {
    const old = this.#buckets
    this.#buckets = new Array<undefined>(old.length * 2).fill(undefined)
    for (const head of old) {
      let entry = head
      while (entry !== undefined) {
        const next = entry.chain
        this.#link(entry)
        entry = next
      }
    }
  }
}

/** FNV-1a, with the high bits mixed in: buckets are chosen by the low ones. */
function hash(id: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < id.length; i++) h = Math.imul(h ^ id.charCodeAt(i), 0x01000193)
  return (h ^ (h >>> 15)) >>> 0
}

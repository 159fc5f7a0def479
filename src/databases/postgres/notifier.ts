/**
 * Tells other processes that queues have jobs. NOTIFY takes a lock that all of a database shares, so it stays out of
 * the transactions that write, and each queue is told of at once, but then not again for some milliseconds. What is
 * lost on the way does not matter: workers poll.
 */
export class Notifier {
  readonly #send: (queues: readonly string[]) => Promise<unknown>
  readonly #waiting = new Set<string>()
  /** When each queue was last told of, the longest ago first. */
  readonly #toldAt = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #sending = false

  constructor(send: (queues: readonly string[]) => Promise<unknown>) {
    this.#send = send
  }

  notify(queues: Iterable<string>): void {
    for (const queue of queues) this.#waiting.add(queue)
    this.#flush()
  }

  /** For whoever sends the word along with something else: true if it is time, and then these are taken for told. */
  isTimeFor(queues: readonly string[]): boolean {
    this.#forgetOld()
    if (queues.some((queue) => this.#toldAt.has(queue))) return false
    for (const queue of queues) this.#isTold(queue)
    return true
  }

  stop(): void {
    this.#waiting.clear()
    clearTimeout(this.#timer)
  }

  /** One statement at a time: a slow server is not asked for more connections than one. */
  #flush(): void {
    if (this.#sending) return
    this.#forgetOld()
    const queues = [...this.#waiting].filter((queue) => !this.#toldAt.has(queue))
    if (queues.length > 0) this.#tell(queues)
    else if (this.#waiting.size > 0) this.#flushLater()
  }

  #forgetOld(): void {
    const old = performance.now() - restMs
    for (const [queue, at] of this.#toldAt) {
      if (at > old) return
      this.#toldAt.delete(queue)
    }
  }

  #tell(queues: readonly string[]): void {
    for (const queue of queues) this.#isTold(queue)
    this.#sending = true
    void this.#send(queues)
      .catch(() => {})
      .finally(() => {
        this.#sending = false
        this.#flush()
      })
  }

  #isTold(queue: string): void {
    this.#waiting.delete(queue)
    this.#toldAt.set(queue, performance.now())
  }

  #flushLater(): void {
    const [longestAgo = 0] = this.#toldAt.values()
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#flush(), Math.max(1, longestAgo + restMs - performance.now()))
  }
}

const restMs = 8

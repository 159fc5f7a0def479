/** Wakes those who wait for something to do, one for each signal. A signal that comes while nobody waits is not lost. */
export class Alarm {
  readonly #waiting = new Set<() => void>()
  #rung = false
  #closed = false

  ring(): void {
    const [wake] = this.#waiting
    if (wake === undefined) this.#rung = true
    else wake()
  }

  /** Resolves at a signal, after `ms`, or when it is closed. */
  wait(ms: number): Promise<void> {
    const isNow = this.#rung || this.#closed
    this.#rung = false
    if (isNow) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      this.#waiting.add(wake)
    })
  }

  close(): void {
    this.#closed = true
    for (const wake of this.#waiting) wake()
  }
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** A Ctrl-C under `npm start` arrives twice: from the terminal, and once more from npm, which passes it on. */
const sameMs = 400

/** When the shop closes: on the first signal or after `duration` it drains, on the second it closes at once. */
export class Closing {
  readonly begun: Promise<void>
  readonly forced: Promise<void>
  #begin = () => {}
  #force = () => {}
  readonly #timer: NodeJS.Timeout | undefined
  #begunAt: number | undefined

  constructor(duration: number | undefined) {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    this.forced = new Promise((resolve) => {
      this.#force = resolve
    })
    if (duration !== undefined) this.#timer = setTimeout(this.#ask, duration)
    for (const signal of signals) process.on(signal, this.#ask)
    // Nobody reads any more: the pipe or the terminal is gone.
    process.stdout.on('error', this.#begin)
  }

  end(): void {
    clearTimeout(this.#timer)
    for (const signal of signals) process.off(signal, this.#ask)
  }

  readonly #ask = (): void => {
    const now = performance.now()
    if (this.#begunAt !== undefined && now - this.#begunAt > sameMs) this.#force()
    this.#begunAt ??= now
    this.#begin()
  }
}

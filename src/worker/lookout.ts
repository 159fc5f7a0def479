import type { Clock } from '../core/clock.js'

/** Knows when it is worth asking for jobs: at a sign of work, when a limit opens, and now and then without either. */
export class Lookout {
  readonly #clock: Clock
  readonly #poll: number
  readonly #wake: () => void
  #seemsEmpty = false
  /** Signs of work so far, and how many there were before the claim on its way was sent. */
  #signs = 0
  #signsBefore = 0
  #opensAt: number | undefined
  #cancelPoll: (() => void) | undefined
  #cancelLook: (() => void) | undefined

  constructor(clock: Clock, poll: number, wake: () => void) {
    this.#clock = clock
    this.#poll = poll
    this.#wake = wake
  }

  /** The last claim came back short, and nothing was heard since it was sent. */
  get seemsEmpty(): boolean {
    return this.#seemsEmpty
  }

  /** When a limit that holds jobs up opens, as far as the last claim knew; epoch milliseconds. */
  get opensAt(): number | undefined {
    return this.#opensAt
  }

  start(): void {
    this.#cancelPoll = this.#clock.after(this.#poll, () => {
      this.look()
      this.start()
    })
  }

  stop(): void {
    this.#cancelPoll?.()
    this.#cancelLook?.()
  }

  /** There may be work. */
  look(): void {
    this.expect()
    this.#wake()
  }

  /** The same, for whoever asks at once. */
  expect(): void {
    this.#signs++
    this.#seemsEmpty = false
  }

  /** A claim is sent. */
  asks(): void {
    this.#signsBefore = this.#signs
  }

  /** It came back, `full` or short; a limit opens in `opens` milliseconds. */
  learns(full: boolean, opens: number | undefined): void {
    this.#seemsEmpty = !full && this.#signs === this.#signsBefore
    this.#opensAt = opens === undefined ? undefined : this.#clock.now() + opens
    if (full || opens === undefined) return
    this.#cancelLook?.()
    this.#cancelLook = this.#clock.after(Math.max(1, opens), () => this.look())
  }
}

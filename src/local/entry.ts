import type { InLine } from './line.js'
import { quiet } from './waiters.js'

/** One push, until its promise is settled. The first settlement counts; later ones are ignored. */
export class Entry<Item, Result> implements InLine<Entry<Item, Result>> {
  readonly item: Item
  readonly size: number
  readonly priority: number
  readonly promise: Promise<Result>
  readonly #abort = new AbortController()
  #settled = false
  #resolve: (result: Result) => void = () => {}
  #reject: (reason: unknown) => void = () => {}

  /** Ends `watch`. */
  unwatch = () => {}

  /** How p-queue starts it, once it was accepted. */
  start: (() => Promise<unknown>) | undefined

  lane: InLine<Entry<Item, Result>>['lane']
  before: Entry<Item, Result> | undefined
  after: Entry<Item, Result> | undefined

  constructor(item: Item, size: number, priority: number) {
    this.item = item
    this.size = size
    this.priority = priority
    this.promise = quiet(
      new Promise<Result>((resolve, reject) => {
        this.#resolve = resolve
        this.#reject = reject
      }),
    )
  }

  /** The signal of `run`. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  abort(reason: unknown): void {
    this.#abort.abort(reason)
  }

  /** Calls back when the caller's signal aborts before the entry is settled. */
  watch(signal: AbortSignal | undefined, aborted: (reason: unknown) => void): void {
    if (signal === undefined) return
    const listener = () => aborted(signal.reason)
    signal.addEventListener('abort', listener)
    this.unwatch = () => signal.removeEventListener('abort', listener)
  }

  resolve(result: Result): void {
    if (this.#first()) this.#resolve(result)
  }

  /** True when this decided it. */
  reject(reason: unknown): boolean {
    const first = this.#first()
    if (first) this.#reject(reason)
    return first
  }

  #first(): boolean {
    if (this.#settled) return false
    this.#settled = true
    this.unwatch()
    return true
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { Dialler } from './dial.js'
import { closed, NoAnswer } from './errors.js'
import type { Line } from './line.js'
import { backoff } from './retry.js'

/** The connection of a shard, shared by all that is asked of it, and replaced when it is lost. */
export class Link {
  readonly #dialler: Dialler
  readonly #root: string
  readonly #closing: AbortSignal
  #line: Line | undefined
  #dialling: Promise<Line> | undefined
  #lostBy: unknown
  /** Attempts in a row that came to nothing, and when the next one may begin. */
  #failures = 0
  #notBefore = 0

  constructor(dialler: Dialler, root: string, closing: AbortSignal) {
    this.#dialler = dialler
    this.#root = root
    this.#closing = closing
  }

  /** The connection, if there is one. */
  get current(): Line | undefined {
    return this.#line?.lost === false ? this.#line : undefined
  }

  /** There is none, and the last attempts to make one have failed. */
  get isAway(): boolean {
    return this.current === undefined && this.#failures > 0
  }

  /** Rejects when there is none in time; the attempt goes on for the others. */
  async line(left: number): Promise<Line> {
    if (this.current !== undefined) return this.current
    this.#dialling ??= this.#dial().finally(() => {
      this.#dialling = undefined
    })
    return inTime(this.#dialling, left, this.#closing)
  }

  /** It led to the wrong server. */
  drop(line: Line, error: unknown): void {
    this.#lostBy = error
    line.sever(error)
  }

  async #dial(): Promise<Line> {
    await sleep(this.#notBefore - performance.now(), undefined, { signal: this.#closing })
    const lostBy = this.#lostBy
    this.#lostBy = undefined
    try {
      const line = await this.#dialler.dial(this.#root, { lostBy, closing: this.#closing })
      this.#failures = 0
      this.#line = line
      return line
    } catch (error) {
      this.#notBefore = performance.now() + backoff(this.#failures++)
      throw error
    }
  }
}

/** Node fires timers beyond it at once. */
const longestMs = 2 ** 31 - 1

function inTime<T>(promise: Promise<T>, ms: number, closing: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const refuse = () =>
      leave(() => reject(closing.aborted ? closed() : new NoAnswer('no connection in time')))
    const timer = setTimeout(refuse, Math.min(ms, longestMs))
    const leave = (settle: () => void) => {
      clearTimeout(timer)
      closing.removeEventListener('abort', refuse)
      settle()
    }
    closing.addEventListener('abort', refuse, { once: true })
    promise.then(
      (value) => leave(() => resolve(value)),
      (error) => leave(() => reject(error)),
    )
  })
}

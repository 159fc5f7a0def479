/**
 * A connection of its own that waits for what other processes put into a list. The server answers at each heartbeat at
 * least, so a half-open connection is found out; lost ones are replaced for ever, and after each gap `onGap` says that
 * something may have been missed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { attempt } from '../../system/attempt.js'
import { nextTurn } from '../../system/turn.js'
import { isReply, replyCode } from './errors.js'
import type { Line } from './line.js'
import { backoff } from './retry.js'
import type { Shard } from './shard.js'

export interface ListenerOptions {
  readonly shard: Pick<Shard, 'apart'>
  /** A list of this process alone, of the same shard. */
  readonly key: string
  readonly onMessage: (text: string) => void
  readonly onGap: () => void
  /** How long the server waits for a message before it says that there is none. @default 10000 */
  readonly heartbeat?: number
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #heartbeat: number
  readonly #stopping = new AbortController()
  #listening = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#heartbeat = options.heartbeat ?? 10_000
  }

  /** Resolves after the first attempt, however that went. */
  start(): Promise<void> {
    return new Promise((resolve) => void this.#listen(resolve))
  }

  get listening(): boolean {
    return this.#listening
  }

  stop(): void {
    this.#stopping.abort()
    this.#listening = false
  }

  async #listen(tried: () => void): Promise<void> {
    let lostBy: unknown
    for (let failures = 0; !this.#stopping.signal.aborted; failures++) {
      let line: Line | undefined
      try {
        line = await this.#connect(lostBy)
        await this.#hear(line, tried, () => {
          failures = 0
        })
      } catch (error) {
        // Whatever it was, the next connection may do better.
        lostBy = error
      }
      this.#listening = false
      line?.sever(lostBy)
      tried()
      await this.#rest(replyCode(lostBy) === 'NOPERM' ? forbiddenMs : backoff(failures))
    }
  }

  async #connect(lostBy: unknown): Promise<Line> {
    const timeouts = { connect: connectMs, answer: this.#heartbeat + travelMs }
    const line = await this.#options.shard.apart({ lostBy, timeouts, closing: this.#stopping.signal })
    line.unref()
    return line
  }

  /** Rejects when the connection is lost. */
  async #hear(line: Line, waiting: () => void, heard: () => void): Promise<never> {
    for (let first = true; ; first = false) {
      const message = this.#next(line)
      if (first && !line.lost) {
        this.#listening = true
        attempt(this.#options.onGap, undefined)
        waiting()
      }
      const text = await message
      heard()
      if (text === undefined) continue
      attempt(this.#options.onMessage, text)
      // Whoever was told goes first: to write takes long.
      await nextTurn()
    }
  }

  /** Undefined: there was none until the heartbeat. */
  async #next(line: Line): Promise<string | undefined> {
    const [reply] = await line.ask([['BLPOP', this.#options.key, this.#heartbeat / 1000]])
    if (isReply(reply)) throw reply
    return Array.isArray(reply) ? String(reply[1]) : undefined
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => {})
  }
}

/** Until whoever may not listen asks again; workers find out by polling meanwhile. */
const forbiddenMs = 60_000
const connectMs = 5_000
/** To the server and back. */
const travelMs = 2_000

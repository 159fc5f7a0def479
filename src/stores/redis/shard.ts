/** All keys of a shard have one hash tag, so that one script may use all of them, in a cluster too. */
import type { Dialler, Dialling } from './dial.js'
import { type CompiledDurability, checkConfirmed, confirming } from './durability.js'
import { isLost, isNoScript, isRefusal, isReply, ScriptRefusal } from './errors.js'
import type { Line } from './line.js'
import { Link } from './link.js'
import type { CompiledOptions } from './options.js'
import { retrying } from './retry.js'
import type { Script } from './script.js'

export interface Effort {
  /** Milliseconds to go on trying. */
  readonly patience?: number
  /** Whether the durability of the options is waited for; a script that only reads need not. @default true */
  readonly durable?: boolean
}

export class Shard {
  /** What the names of all its keys begin with, and the name of the one that always exists. */
  readonly base: string
  readonly #link: Link
  readonly #patience: number
  readonly #durability: CompiledDurability | undefined
  readonly #closing: AbortSignal
  readonly #dialler: Dialler

  constructor(number: number, dialler: Dialler, options: CompiledOptions, closing: AbortSignal) {
    this.base = `{${options.prefix}:${number}}`
    this.#link = new Link(dialler, this.base, closing)
    this.#patience = options.patience
    this.#durability = options.durability
    this.#closing = closing
    this.#dialler = dialler
  }

  /**
   * Every script names the key that always exists and one that never does. While a cluster moves the slot, it refuses
   * scripts of which it has only some keys, so none ever runs on half of the data.
   */
  run(
    script: Script,
    args: readonly (string | number)[],
    { patience = this.#patience, durable = true }: Effort = {},
  ): Promise<unknown> {
    const rest = [2, this.base, `${this.base}:never`, ...args]
    return this.attempting(patience, async (line, left) => {
      const reply = await this.#ask(line, ['EVALSHA', script.sha, ...rest], durable, left)
      if (!isNoScript(reply)) return reply
      return this.#ask(line, ['EVAL', script.text, ...rest], durable, left)
    })
  }

  /** `work` may run several times, each time with another connection when the last one was lost. */
  attempting<T>(patience: number, work: (line: Line, left: number) => Promise<T>): Promise<T> {
    return retrying(patience, this.#closing, async (left) => {
      // Without a wait: what is asked is on its way before this returns.
      const line = this.#link.current ?? (await this.#link.line(left))
      try {
        const result = await work(line, left)
        if (isReply(result)) throw result
        return result
      } catch (error) {
        if (isRefusal(error)) throw new ScriptRefusal(error)
        if (isReply(error) && isLost(error)) this.#link.drop(line, error)
        throw error
      }
    })
  }

  /** Its server is known not to answer. */
  get isAway(): boolean {
    return this.#link.isAway
  }

  /** A connection of its own to the server that has this shard. */
  apart(call: Dialling): Promise<Line> {
    return this.#dialler.dial(this.base, call)
  }

  async #ask(line: Line, command: [string, ...(string | number)[]], durable: boolean, left: number) {
    if (!durable || this.#durability === undefined) return (await line.ask([command], left))[0]
    // Whoever runs out of patience is told what the replicas said.
    const [reply, ...confirmation] = await line.ask(
      [command, ...confirming(this.base, this.#durability)],
      Math.max(left, this.#durability.timeout + travelMs),
    )
    if (!isReply(reply)) checkConfirmed(confirmation, this.#durability)
    return reply
  }
}

/** To the server and back. */
const travelMs = 1_000

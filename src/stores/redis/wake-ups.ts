import { setTimeout as sleep } from 'node:timers/promises'
import type { ClaimRequest, Signal } from '../../core/store.js'
import type { Connection } from './connection.js'
import { Listener } from './listener.js'
import { scripts } from './scripts.js'

/** So long others take us for one who listens, and so often we say that we do. */
const listensFor = 150_000
const saysEvery = 60_000

/** The last word of the server, and so long it is waited for. */
const goodbye = '!bye'
const goodbyeMs = 1_000

/** Hears what other processes did. */
export class WakeUps {
  readonly #connection: Connection
  readonly #ear: string
  readonly #listener: Listener
  #timer: NodeJS.Timeout | undefined
  #started = false
  /** Queues that this process has waited for. */
  readonly #awaited = new Set<string>()
  #hearGoodbye = () => {}

  /** `receive`: jobs that others gave to this process. */
  constructor(
    connection: Connection,
    ear: string,
    tell: (signal: Signal) => void,
    receive: (message: string) => void,
  ) {
    this.#connection = connection
    this.#ear = ear
    const { shard } = connection
    this.#listener = new Listener({
      shard,
      key: `${shard.base}:ear:${ear}`,
      onMessage: (word) => {
        if (word.startsWith('\n')) receive(word)
        else if (word === goodbye) this.#hearGoodbye()
        else tell(word === '!' ? { type: 'changed' } : { type: 'ready', queues: new Set([word]) })
      },
      onGap: () => {
        // Another server may not know of us.
        if (this.#started) void this.#say(listensFor)
        tell({ type: 'changed' })
      },
    })
  }

  get listening(): boolean {
    return this.#listener.listening
  }

  /** The server has noted that this process waits for jobs of a claim's queues. */
  waitsFor({ picks }: ClaimRequest): void {
    for (const { queue } of picks) this.#awaited.add(queue)
  }

  async start(): Promise<void> {
    await this.#say(listensFor)
    this.#timer = setInterval(() => void this.#say(listensFor), saysEvery).unref()
    await this.#listener.start()
    this.#started = true
  }

  /** What was given to this process before it said so is still heard. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    const over = new AbortController()
    const heard = new Promise<void>((resolve) => {
      this.#hearGoodbye = resolve
    })
    if (this.listening) {
      const tooLong = sleep(goodbyeMs, undefined, { signal: over.signal }).catch(() => {})
      const said = this.#say(0).then((isSaid) => (isSaid ? heard : undefined))
      await Promise.race([said, tooLong])
    }
    over.abort()
    this.#listener.stop()
  }

  /** Whether the server has heard it. Nothing depends on it: who is not told polls. */
  #say(ms: number): Promise<boolean> {
    const queues = ms === 0 ? this.#awaited : []
    const args = [this.#ear, ms, ...queues]
    const said = this.#connection.run(scripts.listen, args, { patience: 0, durable: false })
    return said.then(
      () => true,
      () => false,
    )
  }
}

/**
 * A connection of its own that hears what other processes notify. A heartbeat finds out when it is half-open; lost ones
 * are replaced for ever, and after each gap `onGap` says that something may have been missed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ask } from './ask.js'
import { type PgOwnClient, processId, sever, unref } from './driver.js'
import { backoff } from './retry.js'
import { quote } from './schema.js'
import { greeting } from './session.js'
import { types } from './types.js'

export interface ListenerOptions {
  readonly channel: string
  /** Not connected yet. */
  readonly makeClient: () => Promise<PgOwnClient>
  readonly onMessage: (payload: string) => void
  readonly onGap: () => void
  /** Between two heartbeats, and for the answer to one. @default 5000 */
  readonly heartbeat?: number
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #heartbeat: number
  readonly #stopping = new AbortController()
  #client: PgOwnClient | undefined
  #listening = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#heartbeat = options.heartbeat ?? 5_000
  }

  /** Resolves after the first attempt, however that went. */
  start(): Promise<void> {
    return new Promise((resolve) => void this.#listen(resolve))
  }

  get listening(): boolean {
    return this.#listening
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    if (this.#client !== undefined) await this.#leave(this.#client)
  }

  async #listen(tried: () => void): Promise<void> {
    for (let failures = 0; !this.#stopping.signal.aborted; failures++) {
      try {
        const client = await this.#connect()
        if (client === undefined) return tried()
        failures = 0
        this.#listening = true
        this.#options.onGap()
        tried()
        await this.#watch(client)
      } catch {
        // Whatever it was, the next connection may do better.
      }
      tried()
      this.#drop()
      await this.#rest(backoff(failures))
    }
  }

  /** Undefined: it leads through a pooler, where LISTEN is not for us but for whoever comes next. */
  async #connect(): Promise<PgOwnClient | undefined> {
    const client = await this.#options.makeClient()
    this.#client = client
    client.on('error', () => {}) // 'end' follows
    client.on('notification', ({ channel, payload = '' }) => {
      if (channel === this.#options.channel) this.#options.onMessage(payload)
    })
    await client.connect()
    this.#stopping.signal.throwIfAborted()
    unref(client)
    const { rows } = await this.#ask(client, greeting)
    if ((rows[0] as { pid: number }).pid !== processId(client)) {
      this.#drop()
      return undefined
    }
    await this.#ask(client, `LISTEN ${quote(this.#options.channel)}`)
    return client
  }

  /** Rejects when the connection is lost. */
  async #watch(client: PgOwnClient): Promise<never> {
    const ended = new AbortController()
    client.on('end', () => ended.abort())
    for (;;) {
      await sleep(this.#heartbeat, undefined, { signal: ended.signal, ref: false })
      await this.#ask(client, 'SELECT 1')
    }
  }

  #ask(client: PgOwnClient, text: string) {
    return ask(client, { text, types }, this.#heartbeat)
  }

  #drop(): void {
    this.#listening = false
    if (this.#client !== undefined) sever(this.#client)
    this.#client = undefined
  }

  async #leave(client: PgOwnClient): Promise<void> {
    const goodbye = client.end().catch(() => {})
    await Promise.race([goodbye, sleep(goodbyeMs)])
    this.#drop()
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => {})
  }
}

const goodbyeMs = 500

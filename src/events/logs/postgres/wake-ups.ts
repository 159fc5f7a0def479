import type { Connection } from '../../../databases/postgres/connection.js'
import type { CompiledOptions } from '../../../databases/postgres/options.js'
import { WakeUps as ServerWakeUps } from '../../../databases/postgres/wake-ups.js'
import { attempt } from '../../../system/attempt.js'

/** Tells of appends that have been committed, in this process and in others. */
export class WakeUps {
  readonly #server: ServerWakeUps
  readonly #listeners = new Set<() => void>()

  constructor(connection: Connection, options: CompiledOptions) {
    this.#server = new ServerWakeUps(connection, options, () => this.#tellHere())
  }

  /** Resolves when it listens to others, if it does. */
  start(): Promise<void> {
    return this.#server.start()
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }

  subscribe(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  tell(): void {
    this.#tellHere()
    this.#server.ready(topics)
  }

  #tellHere(): void {
    for (const listener of this.#listeners) attempt(listener, undefined)
  }
}

const topics = ['events']

import type { Connection } from './connection.js'

/**
 * Tells that another connection has written to the file: its `data_version` is polled every few milliseconds while it
 * changes, and every 100 ms when it does not.
 */
export class Changes {
  readonly #connection: Connection
  readonly #onChange: () => void
  readonly #dataVersion
  #timer: NodeJS.Timeout | undefined
  #seen = 0
  #pause = shortest

  constructor(connection: Connection, onChange: () => void) {
    this.#connection = connection
    this.#onChange = onChange
    this.#dataVersion = connection.db.prepare<[], number>('PRAGMA data_version').pluck()
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#seen = this.#dataVersion.get() as number
    this.#poll()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #poll(): void {
    this.#timer = setTimeout(() => {
      if (!this.#connection.db.open) return
      const version = this.#version()
      if (version === this.#seen) {
        this.#pause = Math.min(longest, this.#pause * 1.5)
      } else {
        this.#seen = version
        this.#pause = shortest
        this.#onChange()
      }
      if (this.#timer !== undefined) this.#poll()
    }, this.#pause)
    this.#timer.unref()
  }

  /** A file that cannot be read at this moment has not changed, as far as anyone can tell. */
  #version(): number {
    try {
      return this.#dataVersion.get() as number
    } catch {
      return this.#seen
    }
  }
}

const shortest = 2
const longest = 100

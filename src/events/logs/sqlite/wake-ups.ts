import { Changes } from '../../../databases/sqlite/changes.js'
import type { Connection } from '../../../databases/sqlite/connection.js'
import { attempt } from '../../../system/attempt.js'
import type { AppendResult } from '../../log.js'

/** What this process appends is told after its commit; what others do shows as a change of the file. */
export class WakeUps {
  readonly #connection: Connection
  readonly #changes: Changes
  readonly #listeners = new Set<() => void>()

  constructor(connection: Connection) {
    this.#connection = connection
    this.#changes = new Changes(connection, () => this.tell())
  }

  subscribe(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    this.#changes.start()
    return () => {
      this.#listeners.delete(own)
      if (this.#listeners.size === 0) this.stop()
    }
  }

  stop(): void {
    this.#changes.stop()
  }

  /** Called by an append that is being written. */
  appended(results: readonly AppendResult[]): void {
    if (this.#listeners.size > 0 && addedAny(results)) this.#connection.afterCommit(() => this.tell())
  }

  tell(): void {
    for (const listener of this.#listeners) attempt(listener, undefined)
  }
}

export function addedAny(results: readonly AppendResult[]): boolean {
  return results.some((result) => result.status === 'appended' && !result.repeated)
}

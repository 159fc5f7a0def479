/**
 * What the verbs speak with. Each script is tried until it works or `patience` is over: every verb is idempotent, so
 * one whose answer was lost may be done again.
 */
import { setMaxListeners } from 'node:events'
import { checkServer } from './check-server.js'
import { type Dialler, makeDialler } from './dial.js'
import type { CompiledOptions } from './options.js'
import type { Script } from './script.js'
import { type Effort, Shard } from './shard.js'

/** Waits for a server that is not there yet, and refuses one on which jobs would be lost. */
export async function openConnection(options: CompiledOptions): Promise<Connection> {
  const connection = new Connection(await makeDialler(options), options)
  try {
    await connection.check()
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

export class Connection {
  /** What the server may lose, in words. */
  warnings: readonly string[] = []
  readonly #dialler: Dialler
  readonly #options: CompiledOptions
  readonly #closing = new AbortController()
  readonly #shards = new Map<number, Shard>()

  constructor(dialler: Dialler, options: CompiledOptions) {
    this.#dialler = dialler
    this.#options = options
    // All that wait for an outage to end listen to it, however many they are.
    setMaxListeners(0, this.#closing.signal)
  }

  shard(number = 0): Shard {
    const known = this.#shards.get(number)
    if (known !== undefined) return known
    const shard = new Shard(number, this.#dialler, this.#options, this.#closing.signal)
    this.#shards.set(number, shard)
    return shard
  }

  /** On the first shard. */
  run(script: Script, args: readonly (string | number)[], effort?: Effort): Promise<unknown> {
    return this.shard().run(script, args, effort)
  }

  /** What `work` asks before it returns goes out as one packet. */
  together<T>(work: () => T): T {
    return this.shard().together(work)
  }

  async check(): Promise<void> {
    const { patience, durability, warn } = this.#options
    this.warnings = await this.shard().attempting(patience, (line) => checkServer(line, durability))
    if (!warn) return
    for (const warning of this.warnings) process.emitWarning(warning, { code: 'MILLRACE_REDIS_DURABILITY' })
  }

  /** What is still being tried is rejected. */
  close(): void {
    this.#closing.abort()
  }
}

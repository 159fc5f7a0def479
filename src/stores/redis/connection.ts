/**
 * What the verbs speak with. Each script is tried until it works or `patience` is over: every verb is idempotent, so
 * one whose answer was lost may be done again.
 */
import { setMaxListeners } from 'node:events'
import { checkServer } from './check-server.js'
import { type Dialler, makeDialler } from './dial.js'
import { closed } from './errors.js'
import type { CompiledOptions } from './options.js'
import type { Script } from './script.js'
import { type Effort, Shard } from './shard.js'

/** Waits for a server that is not there yet, and refuses one on which jobs would be lost. */
export async function openConnection(
  options: CompiledOptions,
  shard: number,
  closing?: AbortSignal,
): Promise<Connection> {
  const connection = new Connection(await makeDialler(options), options, shard)
  try {
    if (closing?.aborted) throw closed()
    closing?.addEventListener('abort', () => connection.close())
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
  readonly #options: CompiledOptions
  readonly #closing = new AbortController()
  readonly shard: Shard

  constructor(dialler: Dialler, options: CompiledOptions, shard: number) {
    this.#options = options
    // All that wait for an outage to end listen to it, however many they are.
    setMaxListeners(0, this.#closing.signal)
    this.shard = new Shard(shard, dialler, options, this.#closing.signal)
  }

  run(script: Script, args: readonly (string | number)[], effort?: Effort): Promise<unknown> {
    return this.shard.run(script, args, effort)
  }

  async check(): Promise<void> {
    const { patience, durability, warn, target, client } = this.#options
    const isCluster = target?.kind === 'cluster' || client?.isCluster === true
    this.warnings = await this.shard.attempting(patience, (line) => checkServer(line, durability, isCluster))
    if (!warn) return
    for (const warning of this.warnings) process.emitWarning(warning, { code: 'MILLRACE_REDIS_DURABILITY' })
  }

  /** What is still being tried is rejected. */
  close(): void {
    this.#closing.abort()
  }
}

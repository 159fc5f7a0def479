/**
 * What the verbs speak with. Each script is tried until it works or `patience` is over: every verb is idempotent, so
 * one whose answer was lost may be done again.
 */
import { setMaxListeners } from 'node:events'
import { MillraceError } from '../../core/errors.js'
import { checkServer } from './check-server.js'
import { type Dialler, makeDialler } from './dial.js'
import { isReply } from './errors.js'
import type { CompiledOptions } from './options.js'
import type { Script } from './script.js'
import { type Effort, Shard } from './shard.js'

/** Waits for a server that is not there yet, and refuses one on which jobs would be lost. */
export async function openConnection(options: CompiledOptions, shard = 0): Promise<Connection> {
  const connection = new Connection(await makeDialler(options), options, shard)
  try {
    await connection.check()
    await connection.checkShards()
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
    const { patience, durability, warn } = this.#options
    this.warnings = await this.shard.attempting(patience, (line) => checkServer(line, durability))
    if (!warn) return
    for (const warning of this.warnings) process.emitWarning(warning, { code: 'MILLRACE_REDIS_DURABILITY' })
  }

  /** Jobs would not be found by a process that takes the store for smaller or larger than it is. */
  async checkShards(): Promise<void> {
    const { patience, shards } = this.#options
    const found = await this.shard.attempting(patience, async (line) => {
      const [known] = await line.ask([['HGET', this.shard.base, 'shards']])
      if (known !== null) return known
      const replies = await line.ask([
        ['HSETNX', this.shard.base, 'shards', shards],
        ['HGET', this.shard.base, 'shards'],
      ])
      return replies.find(isReply) ?? replies[1]
    })
    if (Number(found) === shards) return
    throw new MillraceError(
      'STORE_REFUSED',
      `the store was made with shards: ${found}, and this process has shards: ${shards}; use ${found}, or another prefix`,
      { field: 'shards', value: shards, limit: Number(found) },
    )
  }

  /** What is still being tried is rejected. */
  close(): void {
    this.#closing.abort()
  }
}

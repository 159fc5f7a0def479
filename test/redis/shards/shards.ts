/** A store over three shards, on the server of the project, and each of its shards for a look behind it. */
import type { RedisStore } from 'millrace/redis'
import { VirtualClock } from 'millrace/testing'
import { onTestFinished } from 'vitest'
import { compileOptions } from '../../../src/stores/redis/options.js'
import { ShardStore } from '../../../src/stores/redis/shard-store.js'
import { freshPrefix, openStore, serverUrl } from '../redis.js'
import { spread } from './spread.js'

export interface Sharded {
  /** Takes all ids for ones that Millrace made. */
  readonly store: RedisStore
  readonly clock: VirtualClock
  /** The first is home. */
  readonly parts: readonly [ShardStore, ShardStore, ShardStore]
  /** Another process. */
  second(): Promise<RedisStore>
}

export async function threeShards(): Promise<Sharded> {
  const options = { prefix: freshPrefix(), shards: 3, clock: new VirtualClock() }
  const part = async (number: number) => {
    const shard = new ShardStore(number, compileOptions({ url: serverUrl(), warn: false, ...options }))
    onTestFinished(() => shard.close())
    await shard.open()
    return shard
  }
  const second = async () => spread(await openStore(options))
  return {
    store: await second(),
    clock: options.clock,
    parts: [await part(0), await part(1), await part(2)],
    second,
  }
}

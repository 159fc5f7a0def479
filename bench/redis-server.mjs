// Redis for the measurements: each has a server of its own, started for it and gone after it, so that neither the
// memory nor the log of one meets the next. MILLRACE_REDIS_URL is not used: a measurement wants an empty server.
//
// The servers are those of the tests.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { builtServer, durableFolder } from './built.mjs'

/** What BullMQ's page on production advises, which anybody who keeps jobs in Redis needs. */
const durable = { appendonly: 'yes', appendfsync: 'everysec' }
const settings = {
  'maxmemory-policy': 'noeviction',
  // A log that is rewritten in the middle would slow down whoever is measured at that moment.
  'auto-aof-rewrite-percentage': 0,
}

export async function redisServers() {
  const [{ startOwnRedis }, { ask }, { redisBinary }] = await Promise.all(
    ['redis', 'redis-process', 'redis-binaries'].map(builtServer),
  )
  const { version } = redisBinary()
  return { use, describe }

  async function use({ from, keep, shared }, work) {
    const kept = (name) => join(shared, `${name}.rdb`)
    const server = from === undefined ? await start(durable) : await startFrom(kept(from))
    try {
      const answer = await work(server.url)
      if (keep !== undefined) {
        await ask(server.port, (redis) => redis.save())
        copyFileSync(dump(server), kept(keep))
      }
      return answer
    } finally {
      await server.stop()
    }
  }

  function start(more) {
    return startOwnRedis({ settings: { ...settings, ...more }, above: durableFolder() })
  }

  /** It reads a dump only while it keeps no log. */
  async function startFrom(file) {
    const server = await start({ appendonly: 'no' })
    try {
      await server.kill()
      copyFileSync(file, dump(server))
      await server.start()
      await ask(server.port, async (redis) => {
        for (const [name, value] of Object.entries(durable).reverse()) await redis.config('SET', name, value)
        while (/aof_rewrite_(in_progress|scheduled):1/.test(await redis.info('persistence'))) await sleep(50)
      })
      return server
    } catch (error) {
      await server.stop()
      throw error
    }
  }

  function describe() {
    const given = Object.entries({ ...durable, ...settings }).map(([name, value]) => `${name}=${value}`)
    return [
      `redis     ${version}, a new server for each measurement, both sides: ${given.join(', ')}, no snapshots`,
    ]
  }
}

const dump = (server) => join(server.dataDir, 'dump.rdb')

/**
 * A server that flushes its log every second is killed under load. What it loses is measured: it may only be of the last
 * seconds before a kill, which are few of all that pass between two of them, and everything goes on from there.
 */
import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { type RedisServer, startOwnRedis } from '../../servers/redis.js'
import { type Arena, sleep } from '../arena.js'
import { type Fault, inArena } from '../fault.js'
import { type Crash, describeLosses, lossesOf } from '../losses.js'
import { groundOf } from '../redis-engine.js'
import type { Row } from '../row.js'
import { startCrew } from './crew.js'

/** What the setting says: about a second, up to two. */
const allowedMs = 2_000
/** A process may read an answer so long after the server has died; only then it is started again. */
const readMs = 1_000
/** From one kill to the next. What was acknowledged between the seconds around them has to be there. */
const apartMs = { least: 5_000, most: 6_000 } as const
const second = 1_000

export const everysecFaults = [
  // The server's process only: what it has handed to the system is kept.
  lossy('everysec-kill', (server) => server.kill()),
  // Its machine: whatever was not flushed is gone, at worst all of the last second.
  lossy('everysec-crash', async (server, log) => {
    const size = log.sizeBefore(second)
    await server.kill()
    truncateSync(log.file, size)
  }),
]

function lossy(name: string, end: (server: RedisServer, log: LogWatch) => Promise<void>): Fault {
  return {
    name,
    weight: 1,
    engines: ['redis'],
    async run(options) {
      const server = await startOwnRedis({
        appendfsync: 'everysec',
        settings: { 'auto-aof-rewrite-percentage': 0 },
      })
      const ground = { ...groundOf(server.url, 'redis'), server, close: () => server.stop() }
      const log = new LogWatch(server)
      try {
        return await inArena({ ...options, ground }, (arena) => attack(arena, () => end(server, log)))
      } finally {
        log.close()
        await server.stop()
      }
    },
  }
}

async function attack(arena: Arena, end: () => Promise<void>): Promise<Row> {
  const crew = await startCrew(arena)
  const crashes: Crash[] = []
  let last = Date.now()
  while (arena.kills < arena.options.kills) {
    await sleep(last + arena.random.between(apartMs.least, apartMs.most) - Date.now())
    last = Date.now()
    await end()
    await sleep(readMs)
    crashes.push({ from: last - allowedMs, at: last, to: Date.now() })
    arena.kills++
    await arena.heal(crew.members, () => arena.server.start())
    arena.options.progress(`${arena.kills} kills`)
  }
  return crew.judge({
    injected: arena.kills,
    repeats: true,
    forgotten: crashes,
    inspect: (findings) => describeLosses(lossesOf(findings, crashes)),
  })
}

/** How long the log was, and when. */
class LogWatch {
  readonly file: string
  readonly #sizes: { t: number; size: number }[] = []
  readonly #timer: NodeJS.Timeout

  constructor({ dataDir }: RedisServer) {
    const folder = join(dataDir ?? '', 'appendonlydir')
    const [name = ''] = readdirSync(folder).filter((file) => file.endsWith('.incr.aof'))
    this.file = join(folder, name)
    this.#timer = setInterval(() => this.#look(), 20)
    this.#look()
  }

  sizeBefore(ms: number): number {
    const t = Date.now() - ms
    return this.#sizes.findLast((seen) => seen.t <= t)?.size ?? 0
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    this.#sizes.push({ t: Date.now(), size: statSync(this.file).size })
  }
}

/** One process of Redis, a server or a sentinel, with a folder and a port of its own. */
import { chownSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { Daemon } from './daemon.js'
import { makeFolder } from './folder.js'
import { quietPort } from './port.js'
import { redisBinary } from './redis-binaries.js'
import { serverUser } from './user.js'

/** As in redis.conf. */
export type RedisSettings = Readonly<Record<string, string | number>>

export interface RedisProcess {
  readonly host: string
  readonly port: number
  readonly dataDir: string
  readonly running: boolean
  /** SIGKILL; resolves when it and the children that write its files are gone. */
  kill(): Promise<void>
  /** Again, on the same data and port; resolves when it answers and has read its data. */
  start(): Promise<void>
  /** Ends it and removes its data. */
  stop(): Promise<void>
}

export interface RedisProcessOptions {
  readonly settings: RedisSettings
  /** @default [] */
  readonly flags?: readonly string[]
  /** Where its folder is made. @default the system's folder for temporary files */
  readonly above?: string | undefined
}

export async function startProcess(options: RedisProcessOptions): Promise<RedisProcess> {
  const { settings, flags = [], above } = options
  const { server } = redisBinary()
  const user = serverUser()
  const folder = makeFolder(user, 'pid', above)
  try {
    const port = await quietPort()
    const config = join(folder.path, 'redis.conf')
    writeFileSync(config, configuration({ ...common(folder.path, folder.pidFile), port, ...settings }))
    // Sentinels write what they learn into it, and the servers that they turn around do.
    if (user !== undefined) chownSync(config, user.uid, user.gid)
    const daemon = new Daemon({
      command: server,
      args: [config, ...flags],
      user,
      log: join(folder.path, 'log'),
      ready: () => answers(port, settings.requirepass),
    })
    const kill = async () => {
      await daemon.kill()
      rmSync(folder.pidFile, { force: true }) // ids are used again
    }
    await daemon.start()
    return {
      host,
      port,
      dataDir: folder.path,
      get running() {
        return daemon.running
      },
      kill,
      start: () => daemon.start(),
      stop: async () => {
        await kill()
        folder.remove()
      },
    }
  } catch (error) {
    folder.remove()
    throw error
  }
}

/** Starts several at once; when one of them fails, none is left. */
export async function startAll<T extends { stop(): Promise<void> }>(starting: Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(starting)
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed === undefined) return started
  await stopAll(started)
  throw failed.reason
}

export async function stopAll(servers: readonly { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(servers.map((server) => server.stop()))
}

/** A connection for a few commands; it never comes back by itself. */
export async function ask<T>(
  port: number,
  work: (redis: Redis) => Promise<T>,
  password?: string | number,
): Promise<T> {
  const redis = new Redis({
    host,
    port,
    ...(password !== undefined && { password: String(password) }),
    lazyConnect: true,
    enableReadyCheck: false,
    connectTimeout: 2_000,
    retryStrategy: () => null,
  })
  redis.on('error', () => {}) // the command tells
  try {
    await redis.connect()
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

const host = '127.0.0.1'

function common(dir: string, pidFile: string): RedisSettings {
  return {
    bind: host,
    dir,
    pidfile: pidFile,
    daemonize: 'no',
    // The folder stands in its arguments: so it is known by it when it was left behind.
    'set-proc-title': 'no',
  }
}

function configuration(settings: RedisSettings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${value === '' ? '""' : value}\n`)
    .join('')
}

async function answers(port: number, password: string | number | undefined): Promise<boolean> {
  try {
    return (await ask(port, (redis) => redis.ping(), password)) === 'PONG'
  } catch {
    return false // nobody listens, or it is LOADING
  }
}

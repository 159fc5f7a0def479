/**
 * A real Redis server with data of its own, for tests, chaos and benchmarks; it can be killed and started again.
 * MILLRACE_REDIS_URL names one to use instead, which then is left as it is.
 */
import { type RedisProcess, type RedisSettings, startProcess } from './redis-process.js'

export interface RedisServerOptions {
  /** When the log of all writes is flushed to the disk; 'off' keeps no log, so a kill loses everything. @default 'off' */
  readonly appendfsync?: 'always' | 'everysec' | 'no' | 'off'
  /** The port of the server that this one copies. */
  readonly replicaOf?: { readonly port: number }
  /** Settings of the server, as in redis.conf; they win over ours. */
  readonly settings?: RedisSettings
  /** Where its folder is made. @default the system's folder for temporary files */
  readonly above?: string
}

export interface RedisServer extends Omit<RedisProcess, 'dataDir'> {
  readonly url: string
  /** Undefined when it is somebody else's server: then nobody may kill it. */
  readonly dataDir: string | undefined
}

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const given = process.env.MILLRACE_REDIS_URL
  return given ? foreign(given) : startOwnRedis(options)
}

/** Ours even where MILLRACE_REDIS_URL names another: for what needs several servers. */
export async function startOwnRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const { above } = options
  const started = await startProcess({ settings: { ...settings(options), ...options.settings }, above })
  const password = options.settings?.requirepass
  const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  return Object.assign(started, { url: `redis://${user}${started.host}:${started.port}` })
}

function foreign(url: string): RedisServer {
  const refuse = async () => {
    throw new Error('the server of MILLRACE_REDIS_URL is not ours to kill or start; unset it for these tests')
  }
  const { hostname: host, port } = new URL(url)
  return {
    url,
    host,
    port: Number(port || 6379),
    dataDir: undefined,
    running: true,
    kill: refuse,
    start: refuse,
    stop: async () => {},
  }
}

function settings({ appendfsync = 'off', replicaOf }: RedisServerOptions): RedisSettings {
  return {
    save: '',
    'maxmemory-policy': 'noeviction',
    // A replica that comes need not wait for others that might.
    'repl-diskless-sync-delay': 0,
    ...(appendfsync === 'off' ? { appendonly: 'no' } : { appendonly: 'yes', appendfsync }),
    ...(replicaOf !== undefined && { replicaof: `127.0.0.1 ${replicaOf.port}` }),
  }
}

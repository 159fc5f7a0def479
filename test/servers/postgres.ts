/**
 * A real PostgreSQL server with data of its own, for tests, chaos and benchmarks; it can be killed and started again.
 * MILLRACE_POSTGRES_URL names one to use instead, which then is left as it is.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Daemon } from './daemon.js'
import { type Folder, makeFolder } from './folder.js'
import { freePort } from './port.js'
import { type Binaries, postgresBinaries } from './postgres-binaries.js'
import { serverUser, type User } from './user.js'

export interface PostgresServerOptions {
  /** Survives a kill without loss; otherwise nothing is ever flushed to the disk. @default false */
  readonly durable?: boolean
  /** Settings of the server, as in postgresql.conf; they win over ours. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** Where its folder is made. @default the system's folder for temporary files */
  readonly above?: string
}

export interface PostgresServer {
  readonly url: string
  readonly port: number
  /** Undefined when it is somebody else's server: then nobody may kill it. */
  readonly dataDir: string | undefined
  /** SIGKILL; resolves when all of its processes are gone. */
  kill(): Promise<void>
  /** Again, on the same data and port; resolves when it takes connections. */
  start(): Promise<void>
  /** Ends it and removes its data. */
  stop(): Promise<void>
}

export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const given = process.env.MILLRACE_POSTGRES_URL
  if (given) return foreign(given)
  const binaries = postgresBinaries()
  const user = serverUser()
  const folder = makeFolder(user, 'data/postmaster.pid', options.above)
  try {
    const dataDir = initialise(binaries, folder, user)
    const port = await freePort()
    const daemon = new Daemon({
      command: join(binaries.folder, 'postgres'),
      args: ['-D', dataDir, ...flags({ ...settings(options.durable === true), port, ...options.settings })],
      user,
      log: join(folder.path, 'log'),
      ready: (pid) => isReady(folder.pidFile, pid),
    })
    await daemon.start()
    return {
      url: `postgres://${superuser}@127.0.0.1:${port}/postgres`,
      port,
      dataDir,
      kill: () => daemon.kill(),
      start: () => daemon.start(),
      stop: async () => {
        await daemon.stop('SIGINT', 'SIGQUIT')
        folder.remove()
      },
    }
  } catch (error) {
    folder.remove()
    throw error
  }
}

const superuser = 'millrace'

function foreign(url: string): PostgresServer {
  const refuse = async () => {
    throw new Error(
      'the server of MILLRACE_POSTGRES_URL is not ours to kill or start; unset it for these tests',
    )
  }
  const port = Number(new URL(url).port || 5432)
  return { url, port, dataDir: undefined, kill: refuse, start: refuse, stop: async () => {} }
}

function initialise(binaries: Binaries, folder: Folder, user: User | undefined): string {
  const dataDir = join(folder.path, 'data')
  const args = ['-D', dataDir, '-U', superuser, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync']
  execFileSync(join(binaries.folder, 'initdb'), args, {
    ...user,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return dataDir
}

function settings(durable: boolean): Record<string, string | number> {
  return {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    // Files in the data folder go with it; segments in memory would outlive a server that is killed.
    dynamic_shared_memory_type: 'mmap',
    wal_level: 'minimal',
    max_wal_senders: 0,
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
  }
}

function flags(values: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** As pg_ctl does: the eighth line of this file is the state of the server whose id is the first. */
function isReady(pidFile: string, pid: number): boolean {
  try {
    const lines = readFileSync(pidFile, 'utf8').split('\n')
    return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
  } catch {
    return false
  }
}

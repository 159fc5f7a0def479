/** PgBouncer in front of a server: what stands between many programs and their database. */
import { chownSync, existsSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Daemon } from './daemon.js'
import { installDebianPackage } from './debian.js'
import { makeFolder } from './folder.js'
import { freePort } from './port.js'
import { serverUser } from './user.js'

export interface PgBouncerOptions {
  /** @default 'transaction' */
  readonly mode?: 'transaction' | 'session' | 'statement'
  /** Connections to the server. @default 10 */
  readonly poolSize?: number
  /** More lines of its configuration. */
  readonly settings?: Readonly<Record<string, string | number>>
}

export interface PgBouncer {
  readonly url: string
  readonly port: number
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export async function startPgBouncer(server: string, options: PgBouncerOptions = {}): Promise<PgBouncer> {
  const command = binary()
  const user = serverUser()
  const folder = makeFolder(user, 'pid')
  try {
    const port = await freePort()
    const config = join(folder.path, 'pgbouncer.ini')
    writeFileSync(config, configuration(new URL(server), port, folder.pidFile, options))
    if (user !== undefined) chownSync(config, user.uid, user.gid)
    const daemon = new Daemon({
      command,
      args: ['-q', config],
      user,
      log: join(folder.path, 'log'),
      ready: () => answers(port),
    })
    await daemon.start()
    const url = new URL(server)
    url.host = `127.0.0.1:${port}`
    return {
      url: url.href,
      port,
      kill: () => daemon.kill(),
      start: () => daemon.start(),
      stop: async () => {
        await daemon.stop('SIGTERM', 'SIGQUIT')
        folder.remove()
      },
    }
  } catch (error) {
    folder.remove()
    throw error
  }
}

function binary(): string {
  const found = find()
  if (found !== undefined) return found
  if (installDebianPackage('pgbouncer')) return find() ?? 'pgbouncer'
  throw new Error(
    'PgBouncer was not found. Install it (Debian: apt install pgbouncer; macOS: brew install pgbouncer)',
  )
}

function find(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/opt/homebrew/bin', '/usr/local/bin']
  return folders.map((folder) => join(folder, 'pgbouncer')).find((path) => existsSync(path))
}

function configuration(server: URL, port: number, pidFile: string, options: PgBouncerOptions): string {
  const { mode = 'transaction', poolSize = 10, settings = {} } = options
  const target = {
    host: server.hostname,
    port: server.port || 5432,
    user: decodeURIComponent(server.username),
    ...(server.password && { password: decodeURIComponent(server.password) }),
  }
  const values = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any', // everybody logs in as the user above
    pool_mode: mode,
    default_pool_size: poolSize,
    max_client_conn: 500,
    pidfile: pidFile,
    ...settings,
  }
  return `[databases]\n* = ${list(target, ' ', '=')}\n[pgbouncer]\n${list(values, '\n', ' = ')}\n`
}

function list(values: Readonly<Record<string, string | number>>, between: string, is: string): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}${is}${value}`)
    .join(between)
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

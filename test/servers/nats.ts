/** A real NATS server with JetStream and data of its own, which can be killed and started again on it. */
import { chownSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from '@nats-io/transport-node'
import { natsBinary } from './broker-binaries.js'
import { Daemon } from './daemon.js'
import { makeFolder } from './folder.js'
import { quietPort } from './port.js'
import { serverUser } from './user.js'

export interface NatsServerOptions {
  /** Lines of its configuration. */
  readonly settings?: readonly string[]
  /** Who may come in; everybody may when there is none. */
  readonly login?: Login
  /** @default true */
  readonly jetstream?: boolean
}

interface Login {
  readonly user: string
  readonly pass: string
  /** Subjects, as the server's configuration has them. @default all */
  readonly mayPublish?: readonly string[]
}

export interface NatsServer {
  readonly url: string
  readonly port: number
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Again, on the same data and port; resolves when it answers. */
  start(): Promise<void>
  /** Ends it and removes its data. */
  stop(): Promise<void>
}

export async function startNats(options: NatsServerOptions = {}): Promise<NatsServer> {
  const command = natsBinary()
  const user = serverUser()
  const folder = makeFolder(user, 'pid')
  try {
    const port = await quietPort()
    const config = join(folder.path, 'nats.conf')
    writeFileSync(config, configuration(options, port, folder.path, folder.pidFile))
    if (user !== undefined) chownSync(config, user.uid, user.gid)
    const daemon = new Daemon({
      command,
      args: ['-c', config],
      user,
      log: join(folder.path, 'log'),
      ready: () => answers(port, options),
    })
    const kill = async () => {
      await daemon.kill()
      rmSync(folder.pidFile, { force: true }) // ids are used again
    }
    await daemon.start().catch(async (error) => {
      await kill()
      throw error
    })
    return {
      url: `nats://127.0.0.1:${port}`,
      port,
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

function configuration(options: NatsServerOptions, port: number, dir: string, pidFile: string): string {
  const { settings = [], login, jetstream = true } = options
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `pid_file: "${pidFile}"`,
    ...(jetstream ? [`jetstream { store_dir: "${join(dir, 'data')}" }`] : []),
    ...(login ? [`authorization { users: [${userOf(login)}] }`] : []),
    ...settings,
  ]
  return lines.map((line) => `${line}\n`).join('')
}

function userOf({ user, pass, mayPublish = ['>'] }: Login): string {
  return JSON.stringify({ user, password: pass, permissions: { publish: mayPublish } })
}

async function answers(port: number, { login, jetstream = true }: NatsServerOptions): Promise<boolean> {
  try {
    const connection = await connect({
      servers: `127.0.0.1:${port}`,
      reconnect: false,
      timeout: 2_000,
      ...login,
    })
    try {
      if (jetstream) await connection.request('$JS.API.INFO', '', { timeout: 1_000 })
      return true
    } finally {
      await connection.close()
    }
  } catch {
    return false // nobody listens, or it reads its data
  }
}

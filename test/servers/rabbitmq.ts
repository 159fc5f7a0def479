/** A real RabbitMQ server with data of its own, which can be killed and started again on it. */
import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import amqp from 'amqplib'
import { rabbitBinary } from './broker-binaries.js'
import { Daemon } from './daemon.js'
import { startEpmd } from './epmd.js'
import { makeFolder } from './folder.js'
import { quietPort } from './port.js'
import { until } from './until.js'
import { serverUser } from './user.js'

export interface RabbitServerOptions {
  /** As in rabbitmq.conf. */
  readonly settings?: Readonly<Record<string, string | number>>
}

export interface RabbitServer {
  readonly url: string
  readonly port: number
  /** Resolves when the definition of a queue is on the disk: the server writes it a while after it has said that it is there. */
  remembers(queue: string): Promise<void>
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Again, on the same data and port; resolves when it answers. */
  start(): Promise<void>
  /** Ends it and removes its data. */
  stop(): Promise<void>
}

export async function startRabbit(options: RabbitServerOptions = {}): Promise<RabbitServer> {
  const command = rabbitBinary()
  const user = serverUser()
  const epmd = await startEpmd()
  const folder = makeFolder(user, 'pid')
  const remove = async () => {
    folder.remove()
    await epmd.stop()
  }
  try {
    const [port, distribution] = [await quietPort(), await quietPort()]
    const config = join(folder.path, 'rabbitmq.conf')
    writeFileSync(config, configuration(port, options.settings ?? {}))
    const home = join(folder.path, 'home')
    mkdirSync(home)
    if (user !== undefined) for (const path of [config, home]) chownSync(path, user.uid, user.gid)
    const environment = { ...settled(folder.path, port, distribution), ...epmd.environment, HOME: home }
    const daemon = new Daemon({
      // -i: nothing that is set for other nodes of this machine is for this one.
      command: 'env',
      args: ['-i', ...Object.entries(environment).map(([name, value]) => `${name}=${value}`), command],
      user,
      log: join(folder.path, 'log'),
      ready: (pid) => {
        writeFileSync(folder.pidFile, `${pid}\n`)
        return answers(port)
      },
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
      url: `amqp://guest:guest@127.0.0.1:${port}`,
      port,
      remembers: async (queue) => {
        await until(`queue ${queue} on the disk`, 20_000, async () =>
          isWritten(folder.path, queue) ? true : undefined,
        )
      },
      kill,
      start: () => daemon.start(),
      stop: async () => {
        await kill()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}

function configuration(port: number, settings: Readonly<Record<string, string | number>>): string {
  const all = {
    'listeners.tcp.local': `127.0.0.1:${port}`,
    'disk_free_limit.absolute': '1MB',
    'loopback_users.guest': 'true',
    'log.console': 'true',
    'log.file': 'false',
    ...settings,
  }
  return Object.entries(all)
    .map(([name, value]) => `${name} = ${value}\n`)
    .join('')
}

/** Its database of definitions has a log and tables, each a file. */
function isWritten(folder: string, queue: string): boolean {
  const data = join(folder, 'data')
  const [node = ''] = readdirSync(data).filter(
    (name) => name.startsWith('millrace-') && !name.includes('plugins'),
  )
  return readdirSync(join(data, node), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .some(({ name }) => readFileSync(join(data, node, name)).includes(queue))
}

/** All that it would else look for in the folders of the system. */
function settled(folder: string, port: number, distribution: number): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    RABBITMQ_NODENAME: `millrace-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'rabbitmq-env.conf'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, 'advanced.config'),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'logs'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_GENERATED_CONFIG_DIR: join(folder, 'config'),
    // Distribution is for nodes of a cluster and for tools: this machine's only.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1} +S 2:2',
    // Its script becomes the server then, rather than its parent.
    RUNNING_UNDER_SYSTEMD: 'true',
    LANG: 'C.UTF-8',
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${port}`, { timeout: 2_000 })
    connection.on('error', () => {})
    await connection.close()
    return true
  } catch {
    return false // nobody listens yet
  }
}

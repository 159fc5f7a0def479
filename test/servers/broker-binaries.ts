/** Where the servers of the message brokers are on this machine. */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { installDebianPackage } from './debian.js'

/** The program `rabbitmq-server` that Debian puts on the PATH runs as nobody but its own user: this is behind it. */
export function rabbitBinary(): string {
  return binary({
    program: 'rabbitmq-server',
    title: 'RabbitMQ',
    debian: 'rabbitmq-server',
    variable: 'MILLRACE_RABBITMQ_BINARY',
    folders: [
      '/usr/lib/rabbitmq/bin',
      '/opt/homebrew/sbin',
      '/usr/local/sbin',
      ...path('/usr/sbin', '/usr/bin'),
    ],
  })
}

export function natsBinary(): string {
  return binary({
    program: 'nats-server',
    title: 'NATS',
    debian: 'nats-server',
    variable: 'MILLRACE_NATS_BINARY',
    folders: [...path(), '/usr/sbin', '/usr/local/bin', '/opt/homebrew/bin'],
  })
}

/** Erlang's list of the nodes of a machine, which comes with Erlang. */
export function epmdBinary(): string {
  const found = find('epmd', [...path(), '/usr/bin', '/usr/lib/erlang/bin', '/opt/homebrew/bin'])
  if (found !== undefined) return found
  throw new Error(
    'no epmd was found, which is a part of Erlang. Put it on the PATH (Debian: apt install erlang-base)',
  )
}

interface Wanted {
  readonly program: string
  readonly title: string
  readonly debian: string
  readonly variable: string
  readonly folders: readonly string[]
}

function binary(wanted: Wanted): string {
  const { program, title, debian, variable, folders } = wanted
  const given = process.env[variable]
  if (given) {
    if (!isProgram(given)) throw new Error(`${variable} is '${given}', which is no program`)
    return given
  }
  const found = find(program, folders)
  if (found !== undefined) return found
  if (installDebianPackage(debian)) {
    const fresh = find(program, folders)
    if (fresh !== undefined) return fresh
  }
  throw new Error(
    `no ${title} server was found. Install one (Debian: apt install ${debian}; macOS: brew install ${brew[program]}), ` +
      `put ${program} on the PATH, or set ${variable} to its file`,
  )
}

const brew: Readonly<Record<string, string>> = { 'rabbitmq-server': 'rabbitmq', 'nats-server': 'nats-server' }

function find(program: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => join(folder, program)).find(isProgram)
}

function path(...without: readonly string[]): string[] {
  return (process.env.PATH ?? '').split(':').filter((folder) => folder !== '' && !without.includes(folder))
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Where Redis, or Valkey, is on this machine. A sentinel is the same program, called with `--sentinel`. */
import { execFileSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { installDebianPackage } from './debian.js'

export interface RedisBinary {
  readonly server: string
  /** As it tells itself: '7.0.15'. */
  readonly version: string
}

export function redisBinary(): RedisBinary {
  const given = process.env.MILLRACE_REDIS_BINARY
  if (given) return named(given)
  const found = find()
  if (found !== undefined) return found
  // The server that Debian starts with it has the usual port; ours never have that.
  if (installDebianPackage('redis-server')) {
    const fresh = find()
    if (fresh !== undefined) return fresh
  }
  throw new Error(
    'no Redis server was found. Install one (Debian: apt install redis-server; macOS: brew install redis), ' +
      'put redis-server or valkey-server on the PATH, set MILLRACE_REDIS_BINARY to its file, ' +
      'or set MILLRACE_REDIS_URL to a server that tests may write to',
  )
}

function named(server: string): RedisBinary {
  const version = versionOf(server)
  if (version === undefined) throw new Error(`MILLRACE_REDIS_BINARY is '${server}', which is no Redis server`)
  return { server, version }
}

function find(): RedisBinary | undefined {
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => folder !== '')
  for (const folder of [...folders, '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin']) {
    for (const name of ['redis-server', 'valkey-server']) {
      const server = join(folder, name)
      const version = isProgram(server) ? versionOf(server) : undefined
      if (version !== undefined) return { server, version }
    }
  }
  return undefined
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function versionOf(server: string): string | undefined {
  try {
    const text = execFileSync(server, ['--version'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return /\bv=(\d[\w.-]*)/.exec(text)?.[1]
  } catch {
    return undefined
  }
}

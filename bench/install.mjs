// What a package brings along when it is installed: itself and everything it depends on at run time.
// Drivers are left out (what talks to SQLite, PostgreSQL or Redis is not the queue), and so are optional packages.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bench = fileURLToPath(new URL('.', import.meta.url))
const root = dirname(bench.replace(/[/\\]$/, ''))
const drivers = new Set(['better-sqlite3', 'ioredis', 'pg', 'redis'])

/** Millrace as it is published: see `files` in package.json. */
export function ownFootprint() {
  const published = ['dist', 'src', 'package.json', 'README.md', 'LICENSE'].map((name) => join(root, name))
  return footprint(
    root,
    published.reduce((sum, path) => sum + size(path), 0),
  )
}

export function peerFootprint({ name }) {
  const folder = join(bench, 'node_modules', name)
  return footprint(folder, size(folder))
}

function footprint(folder, bytes) {
  const found = new Set()
  collect(folder, found)
  const all = [...found].reduce((sum, path) => sum + size(path), bytes)
  return { packages: found.size, megabytes: all / 1e6 }
}

function collect(folder, found) {
  const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) {
    const path = find(folder, name)
    if (drivers.has(name) || found.has(path)) continue
    found.add(path)
    collect(path, found)
  }
}

/** As Node looks for it: in the node_modules of the folder and of those above. */
function find(folder, name) {
  const path = join(folder, 'node_modules', name)
  if (existsSync(path)) return path
  if (folder === dirname(folder)) throw new Error(`${name} is not installed`)
  return find(dirname(folder), name)
}

function size(path) {
  if (!existsSync(path) || path.endsWith('.tsbuildinfo')) return 0
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.size
  return readdirSync(path).reduce(
    (sum, name) => sum + (name === 'node_modules' ? 0 : size(join(path, name))),
    0,
  )
}

// Installs the peers into this folder when they are missing or stale, and a newer Node for those that need one;
// describes what a run ran on.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { bounds } from '../dist/core/bounds.js'
import { burst, pragmas, slots } from './workload.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))

export function installPeers() {
  install(here, 'the peers (a minute or two when better-sqlite3 must be compiled)')
}

/** What graphile-worker and pg-boss need. */
const newer = [22, 18]

/** The binary of a Node that every peer runs on: this one, or that of bench/node. */
export function newerNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > newer[0] || (major === newer[0] && minor >= newer[1])) return process.execPath
  const folder = `${here}node/`
  install(folder, 'a newer Node for the peers that need one')
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const carrier = `${folder}node_modules/node-${platform}-${process.arch}/`
  if (!existsSync(carrier))
    throw new Error(
      `bench/node has no binary for this machine; run the benchmark on Node ${newer.join('.')} or newer`,
    )
  return carrier + JSON.parse(readFileSync(`${carrier}package.json`, 'utf8')).bin.node
}

function install(folder, what) {
  // A driver is compiled for one version of Node's binary interface.
  const lock = readFileSync(`${folder}package-lock.json`)
  const wanted = `${process.versions.modules} ${createHash('sha256').update(lock).digest('hex')}`
  const stamp = `${folder}node_modules/.millrace-bench`
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  process.stderr.write(`bench: installing ${what}\n`)
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  })
  if (status !== 0) throw new Error(`npm ci failed in ${folder}; see above`)
  writeFileSync(stamp, wanted)
}

/** Lines about the machine, the versions and the settings; `servers` have those about themselves. */
export function describeSetup(folder, servers) {
  const { dependencies } = read('package.json')
  const peers = Object.keys(dependencies).map((name) => `${name} ${version(`${here}node_modules/${name}/`)}`)
  const settings = Object.entries(pragmas).map(([name, value]) => `${name}=${value}`)
  const cpus = os.cpus()
  return [
    `machine   ${cpus.length} × ${cpus[0]?.model.trim()}, ${(os.totalmem() / 2 ** 30).toFixed(1)} GiB, ${os.type()} ${os.release()}, load ${os.loadavg()[0]?.toFixed(2)}`,
    `files     ${folder} (file system 0x${statfsSync(folder).type.toString(16)})`,
    `versions  node ${process.versions.node}${onNewer(servers.get('postgres')?.node)}, millrace ${version(`${here}../`)} on better-sqlite3 ${version(`${here}../node_modules/better-sqlite3/`)}`,
    `peers     ${peers.join(', ')}`,
    `sqlite    every side: ${settings.join(', ')}, and synchronous as each case says`,
    `batches   Millrace, by default: up to ${bounds.batch} jobs in one insert or claim, up to ${bounds.prefetch} held beyond the slots`,
    'batches   ceiling: 500; plainjob and liteque: one at a time',
    ...[...servers.values()].flatMap((server) => server.lines),
    `workload  no-op jobs of 60 bytes, ${slots} slots, bursts of ${burst}; warmed up before the clock starts`,
  ]
}

function onNewer(node) {
  if (node === undefined || node === process.execPath) return ''
  const { stdout } = spawnSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' })
  return ` (postgres: node ${stdout.trim()}, both sides)`
}

function version(folder) {
  return JSON.parse(readFileSync(`${folder}package.json`, 'utf8')).version
}

function read(name) {
  return JSON.parse(readFileSync(`${here}${name}`, 'utf8'))
}

// A PostgreSQL server for one run of the benchmark: startPostgres() → { url, stop }.
//
// MILLRACE_POSTGRES_URL names a server that is there already. Otherwise this file, as a process of its own,
// starts one from the binaries of the machine, in a folder of its own, on a free port of the loopback
// address. That process watches the one that asked: however it ends, the server stops and its folder goes.
import { execFileSync, fork, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const self = fileURLToPath(import.meta.url)

/** An ordinary durable server. */
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  max_connections: '200',
}

export async function startPostgres() {
  const url = process.env.MILLRACE_POSTGRES_URL
  if (url !== undefined && url !== '') return { url, stop: async () => {} }
  // Detached, so that Ctrl-C reaches it as the end of the channel and not as a signal.
  const keeper = fork(self, ['keep'], { execArgv: [], stdio: ['ignore', 2, 2, 'ipc'], detached: true })
  const ended = new Promise((resolve) => keeper.on('exit', resolve))
  const told = await new Promise((resolve, reject) => {
    keeper.on('message', resolve)
    keeper.on('error', reject)
    keeper.on('exit', () => reject(new Error('the process that starts PostgreSQL ended')))
  })
  if (told.problem !== undefined) throw new Error(`PostgreSQL did not start: ${told.problem}`)
  return {
    url: told.url,
    stop: () => {
      if (keeper.connected) keeper.disconnect()
      return ended
    },
  }
}

if (process.argv[1] === self && process.argv[2] === 'keep') await keep()

async function keep() {
  const orphaned = new Promise((resolve) => process.on('disconnect', resolve))
  // In the checkout, because a temporary folder may be a file system in memory, where nothing is durable.
  const above = fileURLToPath(new URL('../tmp/', import.meta.url))
  mkdirSync(above, { recursive: true })
  const folder = mkdtempSync(join(above, 'postgres-'))
  let server
  try {
    const started = await start(folder)
    server = started.server
    process.send({ url: started.url })
    await orphaned
  } catch (error) {
    if (process.connected) await new Promise((resolve) => process.send({ problem: error.message }, resolve))
  } finally {
    if (server !== undefined) await end(server)
    rmSync(folder, { recursive: true, force: true })
  }
  process.exit(0)
}

async function start(folder) {
  const bin = findBinaries()
  const user = unprivileged()
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const init = ['-D', data, '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--auth=trust', '--no-sync']
  execFileSync(join(bin, 'initdb'), init, { ...user, cwd: folder, stdio: ['ignore', 'ignore', 2] })

  const port = await freePort()
  const given = { ...settings, port, listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const flags = Object.entries(given).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...flags], {
    ...user,
    cwd: folder,
    // Its messages are read below, so they must be in a language that is known.
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await ready(server)
  return { server, url: `postgres://postgres@127.0.0.1:${port}/postgres` }
}

/** Where the newest binaries are: a PATH that has them comes before the folders of Debian. */
function findBinaries() {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    ...versions.map((version) => join(debian, version, 'bin')),
  ]
  const found = folders.find((folder) => existsSync(join(folder, 'initdb')))
  if (found === undefined) throw new Error('no binaries of PostgreSQL here; set MILLRACE_POSTGRES_URL')
  return found
}

/** PostgreSQL refuses to run as root. */
function unprivileged() {
  if (process.getuid?.() !== 0) return {}
  const number = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: number('-u'), gid: number('-g') }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

function ready(server) {
  let log = ''
  return new Promise((resolve, reject) => {
    server.on('error', reject)
    server.on('exit', () => reject(new Error(log)))
    server.stderr.setEncoding('utf8').on('data', (text) => {
      // What a failed start said; a run writes little here.
      log = (log + text).slice(-10_000)
      if (log.includes('ready to accept connections')) resolve()
    })
  })
}

/** A fast shutdown; after ten seconds an immediate one. */
async function end(server) {
  if (server.exitCode !== null) return
  const gone = new Promise((resolve) => server.on('exit', resolve))
  server.kill('SIGINT')
  const late = setTimeout(() => server.kill('SIGQUIT'), 10_000)
  await gone
  clearTimeout(late)
}

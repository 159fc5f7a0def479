// Makes a fresh clone ready to run: dependencies, native module, build. Runs before start, test and check,
// so it uses nothing but Node itself, and writes to stderr only: stdout belongs to the command that follows.
// With --servers, installs the servers that tests run against, where it can.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))

const LOCK = 'package-lock.json'
const STAMP = 'node_modules/.millrace-setup'
const TOOLCHAIN_HELP =
  'better-sqlite3 does not load and could not be compiled. It needs Python 3, make and a C++ compiler ' +
  '(Debian: apt install python3 make g++; macOS: xcode-select --install).'
const SERVERS = [
  { debian: 'postgresql', places: ['/usr/lib/postgresql'] },
  { debian: 'pgbouncer', places: ['/usr/sbin/pgbouncer'] },
  {
    debian: 'redis-server',
    places: ['/usr/bin/redis-server', '/usr/bin/valkey-server', '/usr/local/bin/redis-server'],
  },
  {
    debian: 'rabbitmq-server',
    places: ['/usr/lib/rabbitmq/bin/rabbitmq-server', '/opt/homebrew/sbin/rabbitmq-server'],
  },
  {
    debian: 'nats-server',
    places: ['/usr/sbin/nats-server', '/usr/local/bin/nats-server', '/opt/homebrew/bin/nats-server'],
  },
  // Certificates for servers that speak TLS.
  { debian: 'openssl', places: ['/usr/bin/openssl', '/usr/local/bin/openssl'] },
]

checkNode()
await installDependencies()
await checkNativeModule()
if (process.argv.includes('--servers')) await installServers()
if (!process.argv.includes('--no-build')) await build()

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  fail(`Millrace needs Node.js 20.19 or newer; this is ${process.version}.`)
}

async function installDependencies() {
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === lockHash()) return
  say('installing dependencies (a minute or two when better-sqlite3 must be compiled)')
  const command = existsSync(LOCK) ? 'ci' : 'install'
  // --include=dev: NODE_ENV=production would leave the compiler out.
  const code = await run('npm', [command, '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'])
  if (code !== 0) fail(`npm ${command} failed. If the output above is about node-gyp: ${TOOLCHAIN_HELP}`)
  writeFileSync(STAMP, lockHash())
}

async function checkNativeModule() {
  if (await sqliteLoads()) return
  say('compiling better-sqlite3 for this version of Node.js')
  await run('npm', ['rebuild', 'better-sqlite3', '--loglevel=error'])
  if (!(await sqliteLoads())) fail(TOOLCHAIN_HELP)
}

function sqliteLoads() {
  const probe = `new (require('better-sqlite3'))(':memory:').close()`
  return run(process.execPath, ['-e', probe], { stdio: 'ignore' }).then((code) => code === 0)
}

/** Where it cannot, the tests that need a server say what to do. */
async function installServers() {
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) return
  const missing = SERVERS.filter(({ places }) => !places.some((place) => existsSync(place)))
  const names = missing.map((server) => server.debian)
  if (names.length === 0) return
  say(`installing ${names.join(' and ')} for the tests`)
  process.env.DEBIAN_FRONTEND = 'noninteractive'
  const install = () => run('apt-get', ['install', '-qq', '-y', '--no-install-recommends', ...names])
  if ((await install()) === 0) return
  await run('apt-get', ['update', '-qq'])
  if ((await install()) !== 0) say(`could not install ${names.join(' and ')}`)
}

async function build() {
  const slow = setTimeout(() => say('building'), 1500)
  const code = await run(process.execPath, ['node_modules/typescript/bin/tsc', '-b'])
  clearTimeout(slow)
  if (code !== 0) fail('the build failed.')
}

function lockHash() {
  return existsSync(LOCK) ? createHash('sha256').update(readFileSync(LOCK)).digest('hex') : 'no lock file'
}

function run(command, args, { stdio = ['ignore', 2, 2] } = {}) {
  return new Promise((resolve) => {
    const shell = process.platform === 'win32' && command === 'npm'
    spawn(command, args, { stdio, shell })
      .on('error', () => resolve(1))
      .on('close', resolve)
  })
}

function say(message) {
  process.stderr.write(`setup: ${message}\n`)
}

function fail(message) {
  say(message)
  process.exit(1)
}

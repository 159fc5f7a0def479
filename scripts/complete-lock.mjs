// Run after changing dependencies: node scripts/complete-lock.mjs
// npm leaves out of the lock file every optional package for another platform that it could not look up, and
// `npm ci` then refuses that lock file. This adds them back.
import { readFileSync, writeFileSync } from 'node:fs'

const LOCK = 'package-lock.json'
const OS = [
  'aix',
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
]
const CPU = ['arm', 'arm64', 'ia32', 'loong64', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64']

const lock = JSON.parse(readFileSync(LOCK, 'utf8'))
const { packages } = lock
let added = 0

for (const [path, parent] of Object.entries(packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    if (packages[`${path}/node_modules/${name}`] || packages[`node_modules/${name}`]) continue
    packages[`node_modules/${name}`] = entry(name, version, parent.dev)
    added++
  }
}

lock.packages = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en')))
if (added > 0) writeFileSync(LOCK, `${JSON.stringify(lock, null, 2)}\n`)
console.log(`${added} packages for other platforms added to ${LOCK}`)

/** Without os and cpu, npm would download the package here as well. Keys in the order in which npm writes them. */
function entry(name, version, dev) {
  const words = name.split(/[/-]/)
  const os = OS.filter((word) => words.includes(word))
  const cpu = CPU.filter((word) => words.includes(word))
  if (os.length + cpu.length === 0) throw new Error(`cannot tell the platform of ${name}`)
  return {
    version,
    ...(cpu.length > 0 && { cpu }),
    ...(dev && { dev }),
    ...libc(words),
    optional: true,
    ...(os.length > 0 && { os }),
  }
}

function libc(words) {
  if (words.some((word) => word.startsWith('musl'))) return { libc: ['musl'] }
  return words.some((word) => word.startsWith('gnu')) ? { libc: ['glibc'] } : {}
}

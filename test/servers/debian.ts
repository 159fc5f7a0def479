import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Installs a Debian package where that is possible; says whether it did. A server that it starts is not ours. */
export function installDebianPackage(name: string): boolean {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return false
  return (
    aptGet('install', '-y', '--no-install-recommends', name) ||
    (aptGet('update') && aptGet('install', '-y', '--no-install-recommends', name))
  )
}

function aptGet(...args: string[]): boolean {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  return spawnSync('apt-get', ['-q', ...args], { env, stdio: ['ignore', 2, 2] }).status === 0
}

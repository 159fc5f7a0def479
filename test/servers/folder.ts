/**
 * A private folder of one server, gone together with the process that made it: a watchdog waits for the end of a
 * pipe that only this process holds, so it works for `kill -9` too. What even that leaves (a power cut) is removed
 * by the next server that starts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { User } from './user.js'

const prefix = 'millrace-server-'

export interface Folder {
  readonly path: string
  /** The watchdog and the next start end the process whose id stands here. */
  readonly pidFile: string
  remove(): void
}

/** `pidFile` is relative to the folder, which is in `above`; its first line is the server's process id. */
export function makeFolder(user: User | undefined, pidFile: string, above = tmpdir()): Folder {
  removeStale(above)
  const path = mkdtempSync(join(above, `${prefix}${process.pid}-`))
  chmodSync(path, 0o700)
  writeFileSync(join(path, owner), JSON.stringify({ pid: process.pid, pidFile }))
  if (user !== undefined) chownSync(path, user.uid, user.gid)
  const watchdog = watch(path, join(path, pidFile))
  return {
    path,
    pidFile: join(path, pidFile),
    remove: () => {
      rmSync(path, { recursive: true, force: true })
      watchdog.kill('SIGKILL')
    },
  }
}

const owner = 'owner.json'

function watch(path: string, pidFile: string): ChildProcess {
  const script =
    'cat >/dev/null; pid=$(head -n 1 "$1" 2>/dev/null) && kill -QUIT "$pid" && sleep 1; kill -KILL "$pid"; rm -rf "$2"'
  const child = spawn('/bin/sh', ['-c', script, 'watchdog', pidFile, path], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true, // a Ctrl-C in the terminal is not for the watchdog
  })
  child.unref()
  ;(child.stdin as unknown as { unref?: () => void }).unref?.()
  return child
}

function removeStale(above: string): void {
  for (const name of readdirSync(above)) {
    if (!name.startsWith(prefix)) continue
    const path = join(above, name)
    try {
      const { pid, pidFile } = JSON.parse(readFileSync(join(path, owner), 'utf8')) as Owner
      if (isAlive(pid)) continue
      endServer(path, join(path, pidFile))
      rmSync(path, { recursive: true, force: true })
    } catch {
      // Somebody is making or removing it at this moment, or it is not ours to read.
    }
  }
}

interface Owner {
  readonly pid: number
  readonly pidFile: string
}

/** Only when the process still is that server: ids are used again. */
function endServer(path: string, pidFile: string): void {
  try {
    const pid = Number(readFileSync(pidFile, 'utf8').split('\n')[0])
    if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(path)) process.kill(pid, 'SIGQUIT')
  } catch {
    // It is gone, or this is no Linux: then its folder goes without it.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

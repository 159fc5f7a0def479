import { execFileSync } from 'node:child_process'

export interface User {
  readonly uid: number
  readonly gid: number
}

/** Whom a server runs as when we are root, which PostgreSQL and PgBouncer refuse and Redis does not need; undefined when we are not. */
export function serverUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const user = find('postgres') ?? find('nobody')
  if (user === undefined)
    throw new Error('servers do not run as root, and there is no user postgres or nobody')
  return user
}

function find(name: string): User | undefined {
  try {
    return { uid: id('-u', name), gid: id('-g', name) }
  } catch {
    return undefined
  }
}

function id(flag: string, name: string): number {
  return Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
}

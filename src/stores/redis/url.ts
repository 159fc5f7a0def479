/**
 * Where the servers are: `redis://user:password@host:port/db`, `redis+sentinel://host:port,host:port/name/db` and
 * `redis+cluster://host:port,host:port`; with `rediss` instead of `redis` over TLS. No error shows anything of a URL,
 * which may hold a password.
 */
import type { MillraceError } from '../../core/errors.js'
import { unshown } from '../../core/options.js'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Target {
  readonly kind: 'server' | 'sentinel' | 'cluster'
  /** Of the server, of the sentinels, or of some nodes of the cluster. */
  readonly addresses: readonly Address[]
  /** What the sentinels call the primary. */
  readonly primary: string | undefined
  readonly username: string | undefined
  readonly password: string | undefined
  readonly db: number
  readonly tls: boolean
}

const pattern =
  /^redis(?<tls>s?)(?:\+(?<kind>sentinel|cluster))?:\/\/(?:(?<login>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?:\/(?<path>[^?#]*))?$/

export function parseUrl(url: unknown): Target {
  const parts = typeof url === 'string' ? pattern.exec(url)?.groups : undefined
  if (parts === undefined)
    throw wrong(
      'a URL such as redis://user:password@host:6379/0, with rediss:// for TLS, redis+sentinel:// or redis+cluster://, ' +
        'without a query; an @, / or : in a password is written %40, %2F or %3A',
    )
  const kind = (parts.kind ?? 'server') as Target['kind']
  const [username, password] = login(parts.login)
  return {
    kind,
    addresses: addresses(parts.hosts ?? '', kind),
    ...place((parts.path ?? '').split('/').map(decoded), kind),
    username,
    password,
    tls: parts.tls === 's',
  }
}

function login(text = ''): [string | undefined, string | undefined] {
  const colon = text.indexOf(':')
  if (colon < 0) return [decoded(text) || undefined, undefined]
  return [decoded(text.slice(0, colon)) || undefined, decoded(text.slice(colon + 1)) || undefined]
}

function addresses(text: string, kind: Target['kind']): Address[] {
  const hosts = text.split(',')
  if (kind === 'server' && hosts.length > 1)
    throw wrong('one host; several are for redis+sentinel:// and redis+cluster://')
  return hosts.map((host) => address(host, kind === 'sentinel' ? 26379 : 6379))
}

/** `host`, `host:port` or `[::1]:port`. */
function address(text: string, usual: number): Address {
  const [, v6, name, digits] = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = v6 ?? name
  const port = Number(digits ?? usual)
  if (host === undefined || port < 1 || port > 65_535)
    throw wrong('hosts such as localhost, localhost:6379 or [::1]:6379, with commas between them')
  return { host: decoded(host), port }
}

/** What stands behind the hosts. */
function place(path: string[], kind: Target['kind']): Pick<Target, 'primary' | 'db'> {
  const primary = kind === 'sentinel' ? path.shift() : undefined
  if (kind === 'sentinel' && !primary)
    throw wrong('the name of the primary after the hosts, as in …/mymaster')
  const [number = '', ...more] = path
  if (!/^\d{0,4}$/.test(number) || more.length > 0) throw wrong('the number of a database after the last /')
  if (kind === 'cluster' && Number(number) !== 0) throw wrong('no database: a cluster has only 0')
  return { primary, db: Number(number) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw wrong('%-escapes that are right; a % itself is %25')
  }
}

function wrong(expected: string): MillraceError {
  return unshown('url', expected)
}

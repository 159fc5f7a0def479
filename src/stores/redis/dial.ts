/** How a connection is made that leads to the server which has a shard. */
import { MillraceError } from '../../core/errors.js'
import { ClusterDialler } from './cluster.js'
import { loadDriver, type RedisClient, type RedisDriver, type RedisPattern, settings } from './driver.js'
import { movedTo } from './errors.js'
import { greetOrLeave } from './greet.js'
import { type Line, openLine } from './line.js'
import type { CompiledOptions, Timeouts } from './options.js'
import type { Address, Target } from './url.js'

export interface Dialler {
  dial(root: string, call: Dialling): Promise<Line>
}

export interface Dialling {
  /** Ends the connection, made or not. */
  readonly closing: AbortSignal
  /** Why the last connection was given up: it may say where to go. */
  readonly lostBy?: unknown
  readonly timeouts?: Timeouts
}

/** Makes sure that a connection leads where it should, or ends it. */
type Greet = (line: Line, root: string) => Promise<void>

/** How all connections of a store are made. */
export interface Manner {
  readonly timeouts: Timeouts
  readonly greet: Greet
}

export async function makeDialler({ target, client, timeouts, shards }: CompiledOptions): Promise<Dialler> {
  const Redis = await loadDriver()
  const greet: Greet = (line, root) => greetOrLeave(line, root, shards)
  const own = { ...settings, connectTimeout: timeouts.connect, sentinelCommandTimeout: timeouts.connect }
  const manner = { timeouts, greet }
  if (target !== undefined) return dialTarget(Redis, target, own, manner)
  const pattern = client as RedisPattern
  if (!pattern.isCluster) return dialLike(pattern, own, manner)
  const { redisOptions, natMap } = pattern.options as ClusterSettings
  const login = loginOf(pattern)
  const make = (address: Address) => new Redis({ ...login, ...redisOptions, ...own, ...address })
  return new ClusterDialler(make, () => nodesOf(pattern), manner, natMap)
}

function dialTarget(Redis: RedisDriver, target: Target, own: object, manner: Manner): Dialler {
  const { kind, addresses, primary: name, username, password, db, tls } = target
  const login = { ...own, username, password, db, ...(tls && { tls: {} }) }
  if (kind === 'cluster')
    return new ClusterDialler(
      (address) => new Redis({ ...login, ...address }),
      () => addresses,
      manner,
    )
  if (kind === 'server') return new ServerDialler(() => new Redis({ ...login, ...addresses[0] }), manner)
  const secure = tls && { enableTLSForSentinelMode: true, sentinelTLS: {} }
  const make = (turn: number) => new Redis({ ...login, ...secure, name, sentinels: turned(addresses, turn) })
  return new ServerDialler(make, manner)
}

function dialLike(pattern: RedisPattern, own: object, manner: Manner): Dialler {
  const { sentinels } = pattern.options as { readonly sentinels?: readonly Address[] | null }
  const place = (turn: number) => (sentinels ? { sentinels: turned(sentinels, turn) } : {})
  return new ServerDialler((turn) => pattern.duplicate({ ...own, ...place(turn) }) as RedisClient, manner)
}

/** One that does not answer must not be asked first for ever. */
function turned<T>(list: readonly T[], turn: number): T[] {
  const first = turn % list.length
  return [...list.slice(first), ...list.slice(0, first)]
}

/** One server, or the one that sentinels know of. */
class ServerDialler implements Dialler {
  readonly #make: (turn: number) => RedisClient
  readonly #manner: Manner
  #turn = 0

  constructor(make: (turn: number) => RedisClient, manner: Manner) {
    this.#make = make
    this.#manner = manner
  }

  async dial(root: string, { closing, timeouts = this.#manner.timeouts }: Dialling): Promise<Line> {
    try {
      const line = await openLine(this.#make(this.#turn), timeouts, closing)
      await this.#manner.greet(line, root)
      return line
    } catch (error) {
      this.#turn++
      throw movedTo(error, '') === undefined ? error : ofCluster(error)
    }
  }
}

function ofCluster(cause: unknown): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the server is a node of a cluster; use redis+cluster://, or a Cluster as client',
    { cause },
  )
}

interface ClusterSettings {
  readonly redisOptions?: object
  readonly natMap?: NatMap
}

/** Where the nodes of a cluster are for us, by what they call themselves: 'host:port'. */
export type NatMap = Readonly<Record<string, Address>> | ((name: string) => Address | null | undefined)

/** Those that the caller's cluster knows now, or was told of. */
function nodesOf(pattern: RedisPattern): Address[] {
  const { nodes, startupNodes } = pattern as {
    nodes?: (role: 'all') => { readonly options: Address }[]
    startupNodes?: unknown[]
  }
  const known = nodes?.call(pattern, 'all').map(({ options: { host, port } }) => ({ host, port })) ?? []
  return [...known, ...(startupNodes ?? []).map(startupNode)]
}

/** A port, 'host:port', a URL or an object. */
function startupNode(node: unknown): Address {
  if (typeof node === 'object' && node !== null) {
    const { host = 'localhost', port = 6379 } = node as Partial<Address>
    return { host, port: Number(port) }
  }
  if (/^\d+$/.test(String(node))) return { host: 'localhost', port: Number(node) }
  const { hostname, port } = urlOf(node)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) }
}

interface Login {
  readonly username?: string
  readonly password?: string
  readonly tls?: object
}

/** That of the first node which has one: all nodes of a cluster have the same users. */
function loginOf(pattern: RedisPattern): Login {
  const { startupNodes = [] } = pattern as { startupNodes?: unknown[] }
  return startupNodes.map(loginIn).find((login) => Object.keys(login).length > 0) ?? {}
}

function loginIn(node: unknown): Login {
  if (typeof node === 'object' && node !== null) {
    const { username, password, tls } = node as Login
    return { ...(username && { username }), ...(password && { password }), ...(tls && { tls }) }
  }
  if (/^\d+$/.test(String(node))) return {}
  const { protocol, username, password } = urlOf(node)
  return {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  }
}

function urlOf(node: unknown): URL {
  return new URL(String(node).includes('://') ? String(node) : `redis://${node}`)
}

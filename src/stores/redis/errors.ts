/**
 * What an error of the server, the network or the driver means for whoever asked: try again, with or without the
 * same connection, or say it in a sentence that helps.
 */
import { type ErrorCode, isMillraceError, MillraceError } from '../../core/errors.js'
import { networkCodes } from '../../system/network-codes.js'

/** The other end does not answer, or not in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

export class ConnectionEnded extends Error {
  override readonly name = 'ConnectionEnded'

  constructor() {
    super('the connection was closed')
  }
}

/** As the server's own error would be: it takes no writes, so this is not the one that we look for. */
export class ReadOnlyServer extends Error {
  override readonly name = 'ReplyError'

  constructor() {
    super('READONLY the server is a replica')
  }
}

/** What our scripts say as well: most of the keys may be on another server still. */
export class NoRoot extends Error {
  override readonly name = 'ReplyError'

  constructor() {
    super('NOROOT there are jobs, and the key that always exists is missing')
  }
}

/** It was done, but fewer have it than the durability asks for. */
export class NotConfirmed extends Error {
  override readonly name = 'NotConfirmed'
}

/** What a script of ours said by an error that begins with 'MR'. */
export class ScriptRefusal extends Error {
  override readonly name = 'ScriptRefusal'
  /** Such as 'MRSTALE'. */
  readonly code: string

  constructor(reply: Error) {
    super(wordsOf(reply), { cause: reply })
    this.code = replyCode(reply) ?? 'MR'
  }
}

export function isRefusedWith(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof ScriptRefusal && codes.includes(error.code)
}

/** The first word of what the server said, such as 'NOSCRIPT'; undefined when it is not the server's. */
export function replyCode(error: unknown): string | undefined {
  if (isMillraceError(error)) return error.cause === undefined ? undefined : replyCode(error.cause)
  if (!isReply(error)) return undefined
  if (/^ERR (The user executing the script can't|ACL failure in script)/.test(error.message)) return 'NOPERM'
  return /^[A-Z]+/.exec(wordsOf(error))?.[0] ?? 'ERR'
}

/** The driver's errors carry what was asked: passwords, and inputs of jobs. */
export function withoutCommand(error: unknown): unknown {
  if (error instanceof Error) delete (error as { command?: unknown }).command
  return error
}

export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Before 7.0 the error of a command inside a script stands at the end of a longer one. */
function wordsOf(reply: Error): string {
  return (
    /^ERR Error running script .*user_script: ?\d+: -?([A-Z]{2,} .*)$/s.exec(reply.message)?.[1] ??
    reply.message
  )
}

export function isNoScript(error: unknown): boolean {
  return replyCode(error) === 'NOSCRIPT'
}

export function isRefusal(error: unknown): error is Error {
  return isReply(error) && replyCode(error)?.startsWith('MR') === true
}

export function isTransient(error: unknown): boolean {
  if (isMillraceError(error)) return false // its sentence has been found already
  return error instanceof NotConfirmed || isLost(error) || passing.has(replyCode(error) ?? '')
}

/** The connection is of no use any more: the next attempt takes another one. */
export function isLost(error: unknown): boolean {
  const code = replyCode(error)
  if (code === undefined) return isNetworkError(error)
  return elsewhere.has(code) || lastWords.test((error as Error).message)
}

/** Another server has what we look for, or will have. */
const elsewhere = new Set([
  'READONLY', // a master that was demoted
  'MASTERDOWN', // a replica without its master
  'UNBLOCKED', // it has become a replica while we waited
  'MOVED',
  'CLUSTERDOWN',
  'NOROOT', // the next greeting makes the root, if nothing else is there either
])

/** What else a server says that is full, or a replica. */
const lastWords = /max number of clients reached|WAIT(AOF)? cannot be used with replica/

/** It passes, and the connection is as good as before. */
const passing = new Set([
  'LOADING',
  'BUSY', // a script is running; whose it is we do not know, so nobody kills it
  'MISCONF', // it cannot write to its disk at this moment
  'NOREPLICAS',
  'TRYAGAIN', // the slot is being moved
  'ASK', // the same; scripts wait for all of it to arrive
])

/** A node that does not know its own name is where it was asked. */
export function hostIn(name: string | null | undefined, asked: string): string {
  return name && name !== '?' ? name : asked
}

/** Where a cluster says that the slot is; without a host it is the one that was asked. */
export function movedTo(error: unknown, host: string): { host: string; port: number } | undefined {
  const [, name, port] = (isReply(error) && /^MOVED \d+ (.*):(\d+)/.exec(error.message)) || []
  return port === undefined ? undefined : { host: hostIn(name, host), port: Number(port) }
}

function isNetworkError(error: unknown): boolean {
  if (error instanceof NoAnswer || error instanceof ConnectionEnded) return true
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string') return networkCodes.has(code)
  return typeof message === 'string' && driverMessages.test(message)
}

/** The driver's own errors have no code. */
const driverMessages =
  /^(Connection is closed|Stream isn't writeable|Command aborted due to connection close|All sentinels are unreachable|connect ETIMEDOUT)/

/** For what was said instead of a connection: an error that does not pass is about how it was set up. */
export function connectError(error: unknown): unknown {
  if (isMillraceError(error) || isTransient(error) || isReply(error)) return error
  return new MillraceError(
    'STORE_REFUSED',
    `cannot connect to Redis: ${text(error)}; check user, password and TLS settings of the URL or the client`,
    { cause: error },
  )
}

/** For an error that another attempt would not have mended. */
export function storeError(error: unknown): unknown {
  if (isMillraceError(error) || error instanceof ScriptRefusal) return error
  if (error instanceof Error && otherProtocol.test(`${error.name} ${error.message}`)) return notRedis(error)
  const code = replyCode(error)
  if (code === undefined) return error
  const [kind, advice] = advise(code)
  return new MillraceError(kind, `Redis: ${text(error)}; ${advice}`, { cause: error })
}

/** What the driver's parsers say of something else. */
const otherProtocol = /^ParserError|Unknown RESP type|Protocol error, got/

function notRedis(cause: unknown): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'what answers at that address is no Redis server; check host and port, and whether it wants TLS (rediss://)',
    { cause },
  )
}

const again = 'Asking again is safe: with the same id, a job is added once'

/** The end of all patience. */
export function gaveUp(error: unknown, waited: number): unknown {
  const tried = waited >= 1000 ? `, tried for ${Math.round(waited / 1000)} s` : ''
  if (error instanceof NotConfirmed)
    return new MillraceError(
      'STORE_UNAVAILABLE',
      `the write is there but not as safe as durability asks${tried}: ${error.message}; check the replicas, or lower durability. ${again}`,
      { cause: error },
    )
  return new MillraceError(
    'STORE_UNAVAILABLE',
    `Redis cannot be used now${tried}: ${text(error)}; ${hint(error)}. What was asked for may or may not have happened. ${again}`,
    { cause: error },
  )
}

function hint(error: unknown): string {
  const code = replyCode(error)
  if (code === 'READONLY' || code === 'MASTERDOWN') return 'check that the address leads to the primary'
  if (code === 'BUSY') return 'look for the script that runs so long'
  if (code === 'MISCONF') return 'check the disk of the server'
  if (code === 'NOREPLICAS') return 'check the replicas, or lower min-replicas-to-write'
  if (code === 'TRYAGAIN' || code === 'ASK') return 'wait until its slot has been moved'
  if (code === 'NOROOT') return 'check that the cluster has moved all keys of the slot to the same node'
  if (code === 'CLUSTERDOWN') return 'check that all slots of the cluster are served'
  if (/No such master with that name/.test(text(error))) return 'check the name of the primary'
  if (/All sentinels are unreachable.*(NOAUTH|WRONGPASS|NOPERM)/s.test(text(error)))
    return 'for sentinels that want a password, use client: new Redis({ sentinels, name, sentinelPassword })'
  return 'check that the server is up and its address is right'
}

function advise(code: string): [ErrorCode, string] {
  switch (code) {
    case 'OOM':
      return ['STORE_FULL', 'nothing was written; raise maxmemory or free some memory, and try again']
    case 'NOAUTH':
    case 'WRONGPASS':
    case 'DENIED':
      return ['STORE_REFUSED', 'check user and password of the URL or the client']
    case 'NOPERM':
      return [
        'STORE_REFUSED',
        'grant the user what it needs, as with ACL rules ~{prefix:* +@all -@dangerous -@admin',
      ]
    case 'WRONGTYPE':
      return ['STORE_FAILED', 'are there keys of somebody else that begin with the same prefix?']
    default:
      return ['STORE_FAILED', 'another attempt would not help']
  }
}

export function closed(): MillraceError {
  return new MillraceError('CLOSED', 'the store is closed')
}

function text(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(text).join(', ')
  return error instanceof Error ? error.message : String(error)
}

/**
 * What an error of the server, the network or the driver means for whoever asked: try again, with or without the
 * same connection, or say it in a sentence that helps.
 */
import { type ErrorCode, isMillraceError, MillraceError } from '../../core/errors.js'
import { networkCodes } from '../../system/network-codes.js'

/** PostgreSQL's name for an error, such as '23505'; undefined when it is not the server's. */
export function sqlState(error: unknown): string | undefined {
  const { code, severity, cause } = (error ?? {}) as { code?: unknown; severity?: unknown; cause?: unknown }
  if (typeof code === 'string' && typeof severity === 'string') return code
  return isMillraceError(error) && cause !== undefined ? sqlState(cause) : undefined
}

/** The other end does not answer, or not in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

/** All connections are in use. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

/** As the server's own error of that number would be: it takes no writes, so this is not the one that we look for. */
export class ReadOnlyServer extends Error {
  override readonly name = 'ReadOnlyServer'
  readonly code = '25006'
  readonly severity = 'ERROR'

  constructor() {
    super('the server is read-only, as a standby is')
  }
}

export function isTransient(error: unknown): boolean {
  return isLost(error) || isConflict(error)
}

/** The connection is of no use any more: the next attempt takes another one. */
export function isLost(error: unknown): boolean {
  const state = sqlState(error)
  if (state === undefined) return isNetworkError(error)
  return state.startsWith('08') || lostStates.has(state) || isStaleStatement(error, state)
}

const lostStates = new Set([
  '57P01', // admin_shutdown, pg_terminate_backend
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now: starting, recovering or shutting down
  '57P05', // idle_session_timeout
  '25P03', // idle_in_transaction_session_timeout
  '53300', // too_many_connections
  '25006', // read_only_sql_transaction: this one has become a standby
])

/** A prepared statement that the connection has lost, or whose tables have changed since. */
function isStaleStatement(error: unknown, state: string): boolean {
  return (
    state === '26000' ||
    (state === '0A000' && (error as { routine?: unknown }).routine === 'RevalidateCachedQuery')
  )
}

/** Others were in the way; the connection is as good as before. */
function isConflict(error: unknown): boolean {
  return conflicts.has(sqlState(error) ?? '')
}

const conflicts = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
  '55P03', // lock_not_available, by our lock_timeout
])

function isNetworkError(error: unknown): boolean {
  if (error instanceof NoAnswer || error instanceof NoConnection) return true
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string') return networkCodes.has(code)
  return typeof message === 'string' && driverMessages.test(message)
}

/** The driver's own errors have no code. */
const driverMessages =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|Client has already been)/

/** A pooler such as PgBouncer takes few settings at the start of a connection. */
export function isStartupRefused(error: unknown): boolean {
  return /unsupported startup parameter/.test(text(error))
}

/** For what a pool says instead of giving a connection: an error without a code is about how it was set up. */
export function connectError(error: unknown): unknown {
  if (isMillraceError(error) || isTransient(error) || sqlState(error) !== undefined) return error
  if (/^Cannot use a pool after calling end/.test(text(error)))
    return new MillraceError('CLOSED', 'the pool was ended by its owner', { cause: error })
  return new MillraceError(
    'STORE_REFUSED',
    `cannot connect to PostgreSQL: ${text(error)}; check user, password and TLS settings of the URL`,
    { cause: error },
  )
}

/** For an error that another attempt would not have mended, or did not. */
export function storeError(error: unknown): unknown {
  if (isMillraceError(error)) return error
  const state = sqlState(error)
  if (state === undefined) return isNetworkError(error) ? unavailable(error, 0) : error
  if (isLost(error)) return unavailable(error, 0)
  const [code, advice] = advise(state)
  return new MillraceError(code, `PostgreSQL: ${text(error)} (${state}); ${advice}`, { cause: error })
}

/** The end of all patience. */
export function gaveUp(error: unknown, waited: number): unknown {
  return isConflict(error) ? storeError(error) : unavailable(error, waited)
}

function unavailable(error: unknown, waited: number): MillraceError {
  const state = sqlState(error)
  const tried = waited >= 1000 ? `, tried for ${Math.round(waited / 1000)} s` : ''
  return new MillraceError(
    'STORE_UNAVAILABLE',
    `PostgreSQL cannot be used now${tried}: ${text(error)}${state === undefined ? '' : ` (${state})`}; ${hint(error, state)}. What was asked for may or may not have happened. Asking again is safe: with the same id, a job is added once`,
    { cause: error },
  )
}

function hint(error: unknown, state: string | undefined): string {
  if (state === '53300')
    return 'raise max_connections, lower poolSize, or put a pooler in front of the server'
  if (state === '25006') return 'check that the address leads to the primary'
  if (error instanceof NoConnection || /^timeout exceeded/.test(text(error)))
    return 'check that the server is up, or raise poolSize when all connections are in use'
  return 'check that the server is up and its address is right'
}

function advise(state: string): [ErrorCode, string] {
  if (conflicts.has(state)) return ['STORE_BUSY', 'others were in the way for too long; nothing was written']
  if (state === '57014')
    return [
      'STORE_BUSY',
      'the statement was cancelled or took longer than statementTimeout; nothing was written',
    ]
  if (state === '53100') return ['STORE_FULL', 'nothing was written; free some disk space and try again']
  if (state === 'XX001' || state === 'XX002') return ['STORE_CORRUPT', 'restore the database from a backup']
  if (state === '42501') return ['STORE_REFUSED', 'grant the role what it needs; nothing was written']
  if (state.startsWith('28') || state === '3D000' || state === '57P04')
    return ['STORE_REFUSED', 'check user, password and database of the URL']
  if (state === '42P01' || state === '42883' || state === '3F000')
    return [
      'STORE_FAILED',
      'something of the schema is missing: was it dropped, restored in part, or taken away by a newer Millrace?',
    ]
  return ['STORE_FAILED', 'nothing was written']
}

export function closed(): MillraceError {
  return new MillraceError('CLOSED', 'the store is closed')
}

function text(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(text).join(', ')
  return error instanceof Error ? error.message : String(error)
}

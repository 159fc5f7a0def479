/**
 * As much of `pg` as the engine uses, in types of our own: the caller's pool may come from another copy of it, and
 * whoever uses another engine needs neither it nor its types.
 */
import { MillraceError } from '../../core/errors.js'

export interface PgPool {
  connect(): Promise<PgPoolClient>
  readonly options?: object
}

export interface PgClient {
  query(query: PgQuery, callback: (error: Error, result: PgResult) => void): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

export interface PgPoolClient extends PgClient {
  release(error?: Error | boolean): void
}

/** A connection that no pool knows of. */
export interface PgOwnClient extends PgClient {
  connect(): Promise<unknown>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  on(event: 'notification', listener: (message: PgNotification) => void): unknown
}

export interface PgQuery {
  readonly text: string
  readonly name?: string
  // biome-ignore lint/suspicious/noExplicitAny: the driver takes whatever can be sent
  readonly values?: any[]
  readonly types?: PgTypes
}

export interface PgTypes {
  // biome-ignore lint/suspicious/noExplicitAny: as the driver has it
  getTypeParser(oid: number, format?: any): any
}

export interface PgResult {
  readonly command: string
  readonly rowCount: number | null
  // biome-ignore lint/suspicious/noExplicitAny: the statement knows its rows
  readonly rows: any[]
}

interface PgNotification {
  readonly channel: string
  readonly payload?: string | undefined
}

export interface PgDriver {
  readonly Pool: new (config: object) => PgOwnPool
  readonly Client: new (config: object) => PgOwnClient
}

export interface PgOwnPool extends PgPool {
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'connect' | 'remove', listener: (client: PgClient) => void): unknown
}

export async function loadDriver(): Promise<PgDriver> {
  try {
    return (await import('pg')).default
  } catch (error) {
    throw new MillraceError('DRIVER_MISSING', 'the PostgreSQL engine needs its driver: npm install pg', {
      cause: error,
    })
  }
}

/** The id that the other end gave itself at the start; undefined where the driver does not tell. */
export function processId(client: PgClient): number | undefined {
  return (client as { processID?: number | null }).processID ?? undefined
}

/** Destroys the socket. Ending a connection says goodbye first, which a half-open one never answers. */
export function sever(client: PgClient): void {
  socketOf(client)?.destroy?.()
}

/** Lets the process end while this connection is open. */
export function unref(client: PgClient): void {
  socketOf(client)?.unref?.()
}

function socketOf(client: PgClient): { destroy?(): void; unref?(): void } | undefined {
  return (client as { connection?: { stream?: { destroy?(): void } } }).connection?.stream
}

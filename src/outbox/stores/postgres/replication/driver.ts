/** As much of `pg-logical-replication` as is used here, in types of our own. */
import { MillraceError } from '../../../../core/errors.js'

export interface ReplicationDriver {
  readonly LogicalReplicationService: new (client: object, config: object) => ReplicationService
  readonly PgoutputPlugin: new (options: object) => Plugin
}

export interface ReplicationService {
  on(event: 'data', listener: (lsn: string, message: Change) => Promise<void> | void): unknown
  on(event: 'heartbeat', listener: (lsn: string, time: number, shouldRespond: boolean) => void): unknown
  on(event: 'start', listener: () => void): unknown
  on(event: 'error', listener: (error: unknown) => void): unknown
  subscribe(plugin: Plugin, slot: string): Promise<unknown>
  acknowledge(lsn: string, ping?: boolean): Promise<boolean>
  destroy(): Promise<unknown>
}

export interface Plugin {
  start(client: ReplicationClient, slot: string, lsn: string): Promise<unknown>
}

export interface ReplicationClient {
  query(text: string): Promise<unknown>
}

export type Change =
  | { readonly tag: 'begin'; readonly commitLsn: string; readonly xid: number }
  | { readonly tag: 'insert'; readonly new: Readonly<Record<string, unknown>> }
  | { readonly tag: 'commit'; readonly commitLsn: string; readonly commitEndLsn: string | null }
  | { readonly tag: 'relation' | 'type' | 'origin' | 'message' | 'update' | 'delete' | 'truncate' }

export async function loadReplication(): Promise<ReplicationDriver> {
  try {
    return (await import('pg-logical-replication')) as unknown as ReplicationDriver
  } catch (cause) {
    throw new MillraceError(
      'DRIVER_MISSING',
      "a relay with source 'replication' needs: npm install pg-logical-replication",
      { cause },
    )
  }
}

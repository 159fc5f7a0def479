import type { BackoffOptions, CompiledBackoff } from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import { type Codec, jsonCodec } from '../core/codec.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { compileBackoff, integer, invalid, noUnknown, noUnknownIn, oneOf } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import type { OutboxStore } from './store.js'

export interface OutboxOptions {
  /** Where the caller's own data is: `'sqlite:app.db'`, `'postgres://…'`, or a store such as `postgresOutbox({ pool })`. */
  readonly store: string | OutboxStore
  /** The one of the Millrace that the jobs go to. @default jsonCodec */
  readonly codec?: Codec
  /** Bytes of an encoded input or message. @default 1 MiB */
  readonly maxPayload?: number
  /**
   * For how long the target has to know a job that is done, so that a relay that crashed right after it had handed the job on
   * does not add it once more: the least that `retain.completed` of a job from the outbox is. @default '1d'
   */
  readonly remember?: Duration
  /** For how long rows are kept that were handed on, and that were set aside. @default { sent: 0, aside: '30d' } */
  readonly keep?: { readonly sent?: Duration; readonly aside?: Duration }
  /** For tests. @default the system's; on PostgreSQL its own decides */
  readonly clock?: Clock
}

export function compileOutbox(raw: OutboxOptions) {
  noUnknown(raw, ['store', 'codec', 'maxPayload', 'remember', 'keep', 'clock'], 'Outbox')
  noUnknownIn('keep', raw.keep === undefined ? {} : raw.keep, ['sent', 'aside'])
  if (raw.codec !== undefined && typeof raw.codec?.encode !== 'function')
    throw invalid('codec', raw.codec, 'a codec, such as jsonCodec')
  return {
    codec: raw.codec ?? jsonCodec,
    maxPayload: integer(raw.maxPayload ?? bounds.payloadBytes, 'maxPayload', 1, 1 << 30),
    remember: milliseconds(raw.remember ?? '1d', 'remember'),
    keep: {
      sent: milliseconds(raw.keep?.sent ?? 0, 'keep.sent'),
      aside: milliseconds(raw.keep?.aside ?? '30d', 'keep.aside'),
    },
    clock: raw.clock ?? systemClock,
  }
}

export type CompiledOutbox = ReturnType<typeof compileOutbox>

export interface RelayPolicy {
  /** Rows that are handed on at a time, at the most. @default 500 */
  readonly batch?: number
  /** How many batches are under way at the same time, in this process. @default 2 */
  readonly concurrency?: number
  /** How often to look for rows when no signal comes. @default '1s' */
  readonly poll?: Duration
  /**
   * How long the other side has to take a batch; on PostgreSQL a transaction is open meanwhile, and a connection of the pool
   * in use. On SQLite another relay goes on where this one was killed after so long and 5 s. @default '10s'
   */
  readonly timeout?: Duration
  /** How often a row may be refused before it is set aside. @default 10 */
  readonly attempts?: number
  /** Between these. @default { type: 'exponential', initialDelay: '1s', maxDelay: '5m', jitter: 'full' } */
  readonly backoff?: BackoffOptions
  /**
   * `replication`: PostgreSQL tells of rows as they are committed, from its write-ahead log: sooner than by polling or by being woken. It needs
   * `wal_level = logical`, a role with REPLICATION, a direct connection and `npm install pg-logical-replication`. One relay
   * at a time follows; others poll as soon as it does not. @default 'poll'
   */
  readonly source?: 'poll' | 'replication'
  /**
   * How many bytes of its log the server may keep for a relay that follows and falls behind; then it polls for a while, and
   * the server lets go of them. @default 1 GiB
   */
  readonly maxLag?: number
  /** How long `stop` waits for what is under way. @default '10s' */
  readonly grace?: Duration
  /** Stops on SIGTERM and SIGINT. @default true */
  readonly handleSignals?: boolean
}

export interface CompiledRelay {
  readonly batch: number
  readonly concurrency: number
  readonly poll: number
  readonly timeout: number
  readonly attempts: number
  readonly backoff: CompiledBackoff
  readonly source: 'poll' | 'replication'
  readonly maxLag: number
  readonly grace: number
  readonly handleSignals: boolean
}

export const relayPolicy = [
  'batch',
  'concurrency',
  'poll',
  'timeout',
  'attempts',
  'backoff',
  'source',
  'maxLag',
  'grace',
  'handleSignals',
] as const satisfies readonly (keyof RelayPolicy)[]

export function compileRelay(raw: RelayPolicy): CompiledRelay {
  return {
    batch: integer(raw.batch ?? 500, 'batch', 1, bounds.batch),
    concurrency: integer(raw.concurrency ?? 2, 'concurrency', 1, 16),
    poll: atLeast(milliseconds(raw.poll ?? '1s', 'poll'), 'poll', 1),
    timeout: atLeast(milliseconds(raw.timeout ?? '10s', 'timeout'), 'timeout', 10),
    attempts: integer(raw.attempts ?? 10, 'attempts', 1, bounds.attempts),
    backoff: compileBackoff(raw.backoff ?? {}),
    source: oneOf(raw.source ?? 'poll', ['poll', 'replication'], 'source'),
    maxLag: integer(raw.maxLag ?? 2 ** 30, 'maxLag', 2 ** 20, Number.MAX_SAFE_INTEGER),
    grace: milliseconds(raw.grace ?? '10s', 'grace'),
    handleSignals: flag(raw.handleSignals ?? true, 'handleSignals'),
  }
}

function flag(value: boolean, field: string): boolean {
  if (typeof value !== 'boolean') throw invalid(field, value, 'true or false')
  return value
}

function atLeast(ms: number, field: string, least: number): number {
  return integer(ms, field, least, 2 ** 31 - 1)
}

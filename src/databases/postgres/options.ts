import type { Clock } from '../../core/clock.js'
import { type Duration, milliseconds } from '../../core/duration.js'
import { integer, invalid, noUnknown, unshown } from '../../core/options.js'
import type { PgPool } from './driver.js'
import { checkSchema } from './schema.js'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. Either this or `pool`. */
  readonly url?: string
  /**
   * The caller's own `pg.Pool`, used and never ended. Its timeouts are its own, except inside transactions. It should be
   * larger than the number of transactions that enqueue at a time: some of these need a second connection for a moment.
   */
  readonly pool?: PgPool
  /** Where the tables are; made when it does not exist. @default 'millrace', or the name of what they are for */
  readonly schema?: string
  /** Connections at most, besides the one that listens; of `url` only. @default 10 */
  readonly poolSize?: number
  /** How long a call goes on trying while the server cannot be reached; 0 tries once. @default '30s' */
  readonly patience?: Duration
  /** How long one statement may run. A server that says nothing for longer is taken for lost. @default '10s' */
  readonly statementTimeout?: Duration
  /** How long a statement waits for a lock before it is tried again. @default '5s' */
  readonly lockTimeout?: Duration
  /** When the server ends a transaction of ours whose process has fallen silent, locks and all. @default '5s' */
  readonly idleInTransactionTimeout?: Duration
  /**
   * Whether a connection of its own listens for what other processes do; otherwise, and behind a connection pooler,
   * workers find out by polling. @default true
   */
  readonly listen?: boolean
  /** @default the server's clock */
  readonly clock?: Clock
}

export interface CompiledOptions {
  readonly url: string | undefined
  readonly pool: PgPool | undefined
  readonly schema: string
  readonly poolSize: number
  readonly patience: number
  readonly timeouts: Timeouts
  readonly listen: boolean
  readonly clock: Clock | undefined
}

export interface Timeouts {
  readonly statement: number
  readonly lock: number
  readonly idleInTransaction: number
  /** From the call to the answer, as this process sees it: then the connection is given up. */
  readonly answer: number
  /** To get a connection, new or used. */
  readonly connect: number
}

const defaults = {
  poolSize: 10,
  patience: '30s',
  statementTimeout: '10s',
  lockTimeout: '5s',
  idleInTransactionTimeout: '5s',
  listen: true,
} as const

const known = [...Object.keys(defaults), 'url', 'pool', 'schema', 'clock']

export function compileOptions(raw: PostgresOptions, schema: string): CompiledOptions {
  noUnknown(raw, known, 'postgres')
  const given = withDefaults(raw)
  checkTarget(raw)
  if (typeof given.listen !== 'boolean') throw invalid('listen', given.listen, 'true or false')
  return {
    url: raw.url,
    pool: raw.pool,
    schema: checkSchema(raw.schema ?? schema),
    poolSize: integer(given.poolSize, 'poolSize', 1, 1000),
    patience: milliseconds(given.patience, 'patience'),
    timeouts: compileTimeouts(given),
    listen: given.listen,
    clock: raw.clock,
  }
}

function withDefaults(raw: PostgresOptions) {
  return {
    poolSize: raw.poolSize ?? defaults.poolSize,
    patience: raw.patience ?? defaults.patience,
    statementTimeout: raw.statementTimeout ?? defaults.statementTimeout,
    lockTimeout: raw.lockTimeout ?? defaults.lockTimeout,
    idleInTransactionTimeout: raw.idleInTransactionTimeout ?? defaults.idleInTransactionTimeout,
    listen: raw.listen ?? defaults.listen,
  }
}

/** Says nothing of the URL itself, which may hold a password. */
function checkTarget({ url, pool }: PostgresOptions): void {
  if ((url === undefined) === (pool === undefined)) throw invalid('url', undefined, 'either url or pool')
  if (pool !== undefined && typeof pool.connect !== 'function') throw unshown('pool', 'a pg.Pool')
  if (url !== undefined && !(/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)))
    throw invalid('url', undefined, "a URL such as 'postgres://user@host:5432/database'")
}

function compileTimeouts(
  given: Required<Pick<PostgresOptions, 'statementTimeout' | 'lockTimeout' | 'idleInTransactionTimeout'>>,
): Timeouts {
  const statement = timeout(given.statementTimeout, 'statementTimeout')
  return {
    statement,
    lock: timeout(given.lockTimeout, 'lockTimeout'),
    idleInTransaction: timeout(given.idleInTransactionTimeout, 'idleInTransactionTimeout'),
    answer: statement + travelMs,
    connect: connectMs,
  }
}

const travelMs = 2_000
const connectMs = 5_000

function timeout(value: Duration, field: string): number {
  const ms = milliseconds(value, field)
  // 0 would mean "for ever" to the server.
  return integer(ms, field, 10, 2 ** 31 - 1 - travelMs)
}

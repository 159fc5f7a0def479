import { MillraceError } from '../../../core/errors.js'
import { CommitWatch } from '../../../databases/postgres/commit-watch.js'
import { type Connection, openConnection } from '../../../databases/postgres/connection.js'
import {
  type CompiledOptions,
  compileOptions,
  type PostgresOptions,
} from '../../../databases/postgres/options.js'
import { lockKey, quote } from '../../../databases/postgres/schema.js'
import { queryOf } from '../../../databases/postgres/tx/query-of.js'
import { WakeUps } from '../../../databases/postgres/wake-ups.js'
import { Opening } from '../../../system/opening.js'
import { Listeners } from '../../listeners.js'
import type {
  AsideQuery,
  AsideRow,
  Claim,
  ClaimRequest,
  Following,
  FollowRequest,
  Kind,
  NewRow,
  OutboxFigures,
  OutboxStore,
  PruneRequest,
} from '../../store.js'
import { slotText } from '../../store.js'
import { claim } from './claim.js'
import { figures, listAside } from './look.js'
import { prune } from './prune.js'
import { follow } from './replication/follow.js'
import { firstOf } from './slots.js'
import { look, migrations, receive, write } from './sql.generated.js'

export function postgresOutbox(options: PostgresOptions): PostgresOutbox {
  return new PostgresOutbox(options)
}

interface Engine {
  readonly connection: Connection
  readonly wakeUps: WakeUps
  readonly commits: CommitWatch<ReadonlySet<Kind>>
}

/** An outbox in a PostgreSQL database, beside the caller's own data. */
export class PostgresOutbox implements OutboxStore {
  readonly capabilities = { engine: 'postgres', synchronous: false, replication: true }
  readonly #options: CompiledOptions
  readonly #listeners = new Listeners()
  readonly #opening = new Opening(() => this.#connect())
  #engine: Engine | undefined

  constructor(options: PostgresOptions) {
    this.#options = compileOptions(options, 'millrace_outbox')
  }

  /** What statements say in braces. */
  readonly #inSchema = (sql: string): string => {
    const { schema } = this.#options
    return sql
      .replaceAll('{schema}', quote(schema))
      .replaceAll('{locks}', lockKey(schema, 'slots'))
      .replaceAll('{text}', `${slotText}`)
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async close(): Promise<void> {
    await this.#opening.over()
    const engine = this.#engine
    this.#engine = undefined
    this.#opening.forget()
    engine?.commits.stop()
    await engine?.wakeUps.stop()
    await engine?.connection.close()
  }

  async #connect(): Promise<void> {
    const { schema } = this.#options
    const own = { table: 'hold', of: 'an outbox' }
    const plan = { schema, own, migrations, inSchema: this.#inSchema }
    const connection = await openConnection(this.#options, plan)
    const wakeUps = new WakeUps(connection, this.#options, (signal) => {
      this.#listeners.tell(signal.type === 'ready' ? kindsOf(signal.queues) : [undefined])
    })
    const commits = new CommitWatch<ReadonlySet<Kind>>(
      connection,
      (earlier, later) => new Set([...earlier, ...later]),
      (kinds) => {
        this.#listeners.tell(kinds)
        wakeUps.ready(kinds)
      },
    )
    this.#engine = { connection, wakeUps, commits }
    await wakeUps.start()
  }

  async write(rows: readonly NewRow[], tx: unknown): Promise<void> {
    const { commits } = this.#open()
    const query = queryOf(tx)
    if (rows.length === 0) return
    const given = rows.map((row) => ({ ...row, slot: firstOf(row.kind) + row.slot }))
    const [told] = await query(this.#inSchema(write.rows), [JSON.stringify(given)])
    commits.watch((told as { xid: string }).xid, new Set(rows.map(({ kind }) => kind)))
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return claim(this.#open().connection, this.#inSchema, request, this.#options.timeouts)
  }

  follow(request: FollowRequest): Promise<Following | undefined> {
    const publication = publicationOf(this.#options.schema)
    return follow({
      connection: this.#open().connection,
      inSchema: this.#inSchema,
      publication,
      request,
      answer: this.#options.timeouts.answer,
    })
  }

  figures(): Promise<OutboxFigures> {
    return figures(this.#open().connection, this.#inSchema)
  }

  listAside(query: AsideQuery): Promise<readonly AsideRow[]> {
    return listAside(this.#open().connection, this.#inSchema, query)
  }

  async retryAside(ids: readonly string[]): Promise<readonly string[]> {
    const { connection, wakeUps } = this.#open()
    const { rows } = await connection.query({ text: this.#inSchema(look.retry) }, [ids])
    this.#listeners.tell([undefined])
    wakeUps.changed()
    return rows.map(({ id }) => id)
  }

  async discardAside(ids: readonly string[]): Promise<readonly string[]> {
    const { rows } = await this.#open().connection.query({ text: this.#inSchema(look.discard) }, [ids])
    return rows.map(({ id }) => id)
  }

  prune(request: PruneRequest): Promise<boolean> {
    return prune(this.#open().connection, this.#inSchema, request)
  }

  async receive(consumer: string, id: string, tx: unknown): Promise<boolean> {
    this.#open()
    const rows = await queryOf(tx)(this.#inSchema(receive.note), [consumer, id])
    return rows.length > 0
  }

  subscribe(listener: (kind: Kind | undefined) => void): () => void {
    return this.#listeners.add(listener)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the outbox is not open')
    return this.#engine
  }
}

/** At most 63 bytes, as for every name. */
function publicationOf(schema: string): string {
  return `outbox.${schema}`
}

function kindsOf(topics: ReadonlySet<string>): Kind[] {
  return (['job', 'message'] as const).filter((kind) => topics.has(kind))
}

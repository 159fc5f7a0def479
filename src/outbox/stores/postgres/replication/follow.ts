import { setTimeout as sleep } from 'node:timers/promises'
import { MillraceError } from '../../../../core/errors.js'
import { ask } from '../../../../databases/postgres/ask.js'
import type { Connection } from '../../../../databases/postgres/connection.js'
import type { PgOwnClient } from '../../../../databases/postgres/driver.js'
import { processId, sever, unref } from '../../../../databases/postgres/driver.js'
import { sqlState } from '../../../../databases/postgres/errors.js'
import { greeting } from '../../../../databases/postgres/session.js'
import { types } from '../../../../databases/postgres/types.js'
import { newToken } from '../../../../system/ids.js'
import { type Claim, type Following, type FollowRequest, type Row, slots } from '../../../store.js'
import { claimWith, type Run } from '../claim.js'
import { firstOf, kindOf } from '../slots.js'
import { follow as statements } from '../sql.generated.js'
import { loadReplication } from './driver.js'
import { Snapshot } from './snapshot.js'
import { Stream, type StreamedRow } from './stream.js'

export interface FollowParts {
  readonly connection: Connection
  readonly inSchema: (sql: string) => string
  readonly publication: string
  readonly request: FollowRequest
  /** Milliseconds that the server has for an answer. */
  readonly answer: number
}

/**
 * One connection streams; the other one writes, and holds the locks of all slots, so that relays which poll stay away for as
 * long as it lives. If either ends, both do. A relay that falls silent is as good as gone: the server ends the connection that
 * has the locks. The stream begins first, which may take as long as the longest transaction
 * that is open: others go on polling meanwhile.
 */
export async function follow(parts: FollowParts): Promise<Following | undefined> {
  const { connection, inSchema, publication, request, answer } = parts
  const driver = await loadReplication()
  await publish(connection, inSchema, publication)
  const client = await connection.pool.apart()
  client.on('error', () => {}) // the next question tells
  let stream: Stream | undefined
  try {
    await client.connect()
    unref(client)
    await refusePooler(client, answer)
    const runWithin =
      (ms: number): Run =>
      (text, values = []) =>
        ask(client, { text: inSchema(text), values: [...values], types }, ms)
    const run = runWithin(answer)
    const first = firstOf(request.kind)
    await run(statements.lease, [String(request.within)])
    const lead = await run(statements.lead, [first])
    if (lead.rows[0].taken !== true) return void leave(client)
    const slot = `millrace_outbox_${newToken()}`
    stream = await Stream.start({
      driver,
      client: settingsOf(client, request.within),
      slot,
      publication,
      isWanted: (row) => row.slot >= first && row.slot < first + slots,
    })
    await run(`SET lock_timeout = ${request.within}`)
    await runWithin(request.within + answer)(statements.lock, [first, slots])
    const { rows } = await run(statements.now)
    const { now, snapshot } = rows[0]
    return new PostgresFollowing({
      client,
      run,
      stream,
      slot,
      request,
      before: new Snapshot(snapshot),
      epoch: now - performance.now(),
    })
  } catch (error) {
    await stream?.close()
    leave(client)
    throw explained(error)
  }
}

interface FollowingParts {
  readonly client: PgOwnClient
  readonly run: Run
  readonly stream: Stream
  /** The replication slot. */
  readonly slot: string
  readonly request: FollowRequest
  /** Taken when all slots were held, so that whatever it has seen and is there still is claimed. */
  readonly before: Snapshot
  /** What the server's clock shows at zero of ours. */
  readonly epoch: number
}

class PostgresFollowing implements Following {
  readonly #parts: FollowingParts
  /** Claimed, and perhaps told of once more. */
  readonly #claimed = new Set<string>()
  readonly #streamed = new Map<Row, StreamedRow>()
  /** Told of, and not handed out. */
  #unseen: StreamedRow[] = []
  readonly #renewal: NodeJS.Timeout

  constructor(parts: FollowingParts) {
    this.#parts = parts
    parts.client.on('end', () => void this.close())
    this.#renewal = setInterval(() => void this.#renew(), parts.request.within / 4)
    this.#renewal.unref()
  }

  async claim(limit: number): Promise<Claim> {
    const { run, request } = this.#parts
    const { within, history, kind } = request
    const claim = await claimWith(run, { kind, limit, from: 0, within, history })
    for (const row of claim.rows) this.#claimed.add(nameOf(row))
    if (this.#claimed.size > mostClaimed)
      throw new Error('too much was written before the stream began; it begins again')
    return claim
  }

  async next(limit: number, ms: number): Promise<readonly Row[]> {
    if (this.#unseen.length === 0) this.#unseen = await this.#told(limit, ms)
    const rows = this.#unseen.length === 0 ? [] : await this.#seen(ms)
    return rows.map((streamed) => {
      const row = this.#rowOf(streamed)
      this.#streamed.set(row, streamed)
      return row
    })
  }

  /** Without those that were claimed. */
  async #told(limit: number, ms: number): Promise<StreamedRow[]> {
    const { stream, before } = this.#parts
    const streamed = await stream.next(limit, ms)
    const isKnown = (row: StreamedRow) => before.hasSeen(row.xid) || this.#claimed.delete(nameOf(row))
    const rows: StreamedRow[] = []
    const known: StreamedRow[] = []
    for (const row of streamed) (isKnown(row) ? known : rows).push(row)
    if (known.length > 0) stream.settled(known)
    return rows
  }

  /**
   * The log tells of a commit before anybody can see it: by a moment, or by as long as a synchronous standby takes. Until
   * then it could still be lost, whoever gets the row would not find what it tells of, and it could not be removed.
   */
  async #seen(ms: number): Promise<StreamedRow[]> {
    const deadline = performance.now() + ms
    for (let rest = 1; ; rest = Math.min(2 * rest, longestRestMs)) {
      const { rows } = await this.#parts.run(statements.seen)
      const now = new Snapshot(rows[0].snapshot)
      const unseen = this.#unseen.findIndex(({ xid }) => !now.hasSeen(xid))
      if (unseen !== 0) return this.#unseen.splice(0, unseen === -1 ? this.#unseen.length : unseen)
      if (performance.now() + rest > deadline) return []
      await sleep(rest)
    }
  }

  async settle(rows: readonly Row[]): Promise<void> {
    const { run, request, stream } = this.#parts
    const streamed = rows.map((row) => this.#streamed.get(row) as StreamedRow)
    const numbers = streamed.map(({ slot }) => slot)
    await run(statements.remove, [numbers, rows.map(({ seq }) => seq), request.history])
    for (const row of rows) this.#streamed.delete(row)
    stream.settled(streamed)
  }

  async lag(): Promise<number> {
    const { rows } = await this.#parts.run(statements.lag, [this.#parts.slot])
    return rows[0]?.lag ?? 0
  }

  async isLate(ms: number): Promise<boolean> {
    const { run, request, stream, epoch } = this.#parts
    // What was told of and is not settled yet may be as old as it likes.
    const told = [...this.#streamed.values(), ...this.#unseen].map(({ at }) => at)
    const oldest = Math.min(epoch + performance.now(), stream.oldest, ...told)
    const { rows } = await run(statements.leftover, [firstOf(request.kind), slots, oldest - ms])
    return rows[0].old
  }

  async close(): Promise<void> {
    clearInterval(this.#renewal)
    // First the stream: nobody else may be at work while it still gives rows.
    await this.#parts.stream.close()
    leave(this.#parts.client)
  }

  async #renew(): Promise<void> {
    try {
      await this.#parts.run(statements.renew)
    } catch {
      await this.close() // somebody else may be at work by now
    }
  }

  #rowOf({ slot, lsn: _, xid: __, ...row }: StreamedRow): Row {
    const age = Math.max(0, this.#parts.epoch + performance.now() - row.at)
    return { ...row, kind: kindOf(slot), slot: slot % slots, age, attempts: undefined }
  }
}

const mostClaimed = 100_000
const longestRestMs = 32

function nameOf({ slot, seq }: { readonly slot: number; readonly seq: number }): string {
  return `${slot % slots}:${seq}`
}

/** Its locks go with it. */
function leave(client: PgOwnClient): void {
  client.end().catch(() => {})
  setTimeout(() => sever(client), goodbyeMs).unref()
}

const goodbyeMs = 500

/** A lock that is taken over a pooler stays with a connection that goes to others. */
async function refusePooler(client: PgOwnClient, within: number): Promise<void> {
  const { rows } = await ask(client, { text: greeting, types }, within)
  if (rows[0].pid !== processId(client))
    throw refused(
      'the connection leads through a pooler; give the outbox a URL that leads to the server itself',
    )
}

/** How the other connection is to be made. Its slot waits for open transactions, but not for ever: the server keeps its log meanwhile. */
function settingsOf(client: PgOwnClient, patience: number): object {
  const { connectionParameters, password } = client as unknown as {
    connectionParameters: {
      user?: string
      database?: string
      host?: string
      port?: number
      ssl?: unknown
      options?: string
    }
    password?: unknown
  }
  const { user, database, host, port, ssl, options = '' } = connectionParameters
  const patient = `${options} -c lock_timeout=${patience}`.trim()
  return {
    user,
    database,
    host,
    port,
    ssl,
    password,
    options: patient,
    application_name: 'millrace',
    keepAlive: true,
  }
}

async function publish(
  connection: Connection,
  inSchema: (sql: string) => string,
  publication: string,
): Promise<void> {
  const { rows } = await connection.query({ text: inSchema(statements.prepared) }, [publication])
  if (rows[0].level !== 'logical') throw refused(`its wal_level is '${rows[0].level}'; ${advices['55000']}`)
  if (rows[0].published === true) return
  // Null: there is a publication of that name, of a table that has gone.
  const make = rows[0].published === null ? statements.publishAgain : statements.publish
  const text = inSchema(make).replace('{publication}', publication)
  await connection.query({ text }).catch((error: unknown) => {
    if (!duplicates.has(sqlState(error) ?? '')) throw error // another relay was quicker
  })
}

/** Duplicate object, or unique violation when both were at it at the same time. */
const duplicates: ReadonlySet<string> = new Set(['42710', '23505'])

function explained(error: unknown): unknown {
  const advice = advices[sqlState(error) ?? '']
  if (advice === undefined) return error
  return refused(`${error instanceof Error ? error.message : String(error)}; ${advice}`, error)
}

function refused(why: string, cause?: unknown): MillraceError {
  const details = { field: 'source', value: 'replication', ...(cause !== undefined && { cause }) }
  return new MillraceError('STORE_REFUSED', `the server does not replicate to this relay: ${why}`, details)
}

const advices: Readonly<Record<string, string>> = {
  '55000': "set wal_level = logical, restart the server, or use source 'poll'",
  '55P03': 'a transaction has been open for long; the relay polls, and tries again',
  '42501': 'give the role REPLICATION: ALTER ROLE the_role REPLICATION',
  '53400': 'raise max_replication_slots and max_wal_senders',
  '53300': 'raise max_wal_senders',
}

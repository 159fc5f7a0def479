import type { Connection } from '../../../databases/postgres/connection.js'
import type { Queryable } from '../../../databases/postgres/transaction.js'
import type { Surplus, SurplusQuery } from '../../log.js'
import { type Place, Rounds, rangeOf, window } from '../rounds.js'
import { type EventRow, toEvent } from '../rows.js'
import type { InSchema } from './in-schema.js'
import { retention as sql } from './sql.generated.js'

/** `now`: empty for the server's clock. */
export function makeRetention(connection: Connection, inSchema: InSchema, now: () => string) {
  const rounds = new Rounds()

  return { surplus, remove, erase }

  async function surplus(query: SurplusQuery): Promise<Surplus> {
    const { age, superseded, through, limit } = query
    const { category, begin, end } = rangeOf(query.category)
    const from = rounds.next(query)
    const places = await run<Place>('look', [from.stream, from.version, end, window - 1])
    const [to] = places
    const upTo = to ?? { stream: end, version: 0 }
    const rows = await run<EventRow>('surplus', [
      ...[from.stream, from.version, upTo.stream, upTo.version],
      ...[end, begin, category, age, through, superseded, limit, now()],
    ])
    return rounds.looked(query, to, rows.map(toEvent))
  }

  async function remove(positions: readonly number[]): Promise<void> {
    await run('remove', [positions])
  }

  async function erase(stream: string, limit: number): Promise<boolean> {
    return connection.transaction(async (transaction) => {
      await run('lock', [stream], transaction)
      await run('forgetSnapshots', [stream], transaction)
      await run('erase', [stream, limit], transaction)
      return (await run('isLeft', [stream], transaction)).length === 0
    })
  }

  async function run<Row>(
    statement: keyof typeof sql,
    values: readonly unknown[],
    server: Queryable = connection,
  ): Promise<Row[]> {
    return (await server.query<Row>({ text: inSchema(sql[statement]) }, values)).rows
  }
}

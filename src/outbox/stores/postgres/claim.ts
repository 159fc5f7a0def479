import type { Connection } from '../../../databases/postgres/connection.js'
import { isLost } from '../../../databases/postgres/errors.js'
import type { Transaction } from '../../../databases/postgres/transaction.js'
import { type Claim, type ClaimRequest, type Row, slots, type Verdict } from '../../store.js'
import { firstOf, kindOf } from './slots.js'
import { claim as statements } from './sql.generated.js'

type InSchema = (sql: string) => string

/** A claim is a transaction in which its rows are deleted: whatever ends it without a commit brings them back. */
export async function claim(
  connection: Connection,
  inSchema: InSchema,
  { kind, limit, from, within, history }: ClaimRequest,
): Promise<Claim> {
  const transaction = await connection.begin({ timeouts: { ...timeouts, idleInTransaction: within } })
  try {
    const { rows } = await transaction.query<Claimed>(
      { name: 'millrace_outbox_claim', text: inSchema(statements.take) },
      [firstOf(kind), slots, from, limit, history],
    )
    if (rows.length === 0) await transaction.rollback()
    return new PostgresClaim(transaction, inSchema, rows.map(rowOf))
  } catch (error) {
    await transaction.rollback(error)
    throw error
  }
}

const timeouts = { statement: 30_000, lock: 10_000, idleInTransaction: 0, answer: 32_000, connect: 5_000 }

class PostgresClaim implements Claim {
  readonly rows: readonly Row[]
  readonly #transaction: Transaction
  readonly #inSchema: InSchema

  constructor(transaction: Transaction, inSchema: InSchema, rows: readonly Row[]) {
    this.#transaction = transaction
    this.#inSchema = inSchema
    this.rows = rows
  }

  async settle(verdicts: readonly Verdict[]): Promise<'settled' | 'lost'> {
    const changes = this.rows.flatMap((row, i) => changesOf(row, verdicts[i] as Verdict))
    try {
      if (changes.length > 0)
        await this.#transaction.query({ text: this.#inSchema(statements.settle) }, [JSON.stringify(changes)])
      await this.#transaction.commit()
      return 'settled'
    } catch (error) {
      await this.#transaction.rollback(error)
      if (isLost(error)) return 'lost'
      throw error
    }
  }

  release(): Promise<void> {
    return this.#transaction.rollback()
  }
}

/** What the settling statement has to do: nothing, for a row that is done and has never failed. */
function changesOf(row: Row, verdict: Verdict): object[] {
  const slot = firstOf(row.kind) + row.slot
  switch (verdict.do) {
    case 'done':
      return row.attempts === undefined ? [] : [{ do: 'free', slot, seq: row.seq, key: row.key }]
    case 'leave':
      return [{ ...row, slot, do: 'back', attempts: null }]
    case 'hold':
      return [{ ...row, ...verdict, slot, do: 'back' }]
    case 'set aside':
      return [
        { ...row, ...verdict, slot },
        { do: 'free', slot, seq: row.seq, key: row.key },
      ]
  }
}

type Claimed = { [K in keyof Omit<Row, 'kind'>]: Exclude<Row[K], undefined> | null }

function rowOf({ slot, key, topic, headers, attempts, ...rest }: Claimed): Row {
  const number = slot as number
  return {
    ...(rest as Pick<Row, 'seq' | 'id' | 'body' | 'at' | 'age'>),
    kind: kindOf(number),
    slot: number % slots,
    key: key ?? undefined,
    topic: topic ?? undefined,
    headers: headers ?? undefined,
    attempts: attempts ?? undefined,
  }
}

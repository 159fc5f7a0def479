import type { Connection } from '../../../databases/postgres/connection.js'
import { isLost } from '../../../databases/postgres/errors.js'
import type { Timeouts } from '../../../databases/postgres/options.js'
import { type Claim, type ClaimRequest, type Row, slots, type Verdict } from '../../store.js'
import { firstOf, kindOf } from './slots.js'
import { claim as statements } from './sql.generated.js'

/** Sends one of the statements, over the connection that holds the claim. */
// biome-ignore lint/suspicious/noExplicitAny: the statement knows its rows
export type Run = (text: string, values?: readonly unknown[]) => Promise<{ readonly rows: readonly any[] }>

/** A claim is a transaction in which its rows are deleted: whatever ends it without a commit brings them back. */
export async function claim(
  connection: Connection,
  inSchema: (sql: string) => string,
  request: ClaimRequest,
  timeouts: Timeouts,
): Promise<Claim> {
  const transaction = await connection.begin({
    timeouts: { ...timeouts, idleInTransaction: request.within },
  })
  const run: Run = (text, values) => transaction.query({ text: inSchema(text) }, values)
  return taken(run, request, {
    commit: () => transaction.commit(),
    rollback: (error) => transaction.rollback(error),
  })
}

/** The same over a connection that has no transaction open. */
export async function claimWith(run: Run, request: ClaimRequest): Promise<Claim> {
  await run('BEGIN')
  return taken(run, request, {
    commit: async () => void (await run('COMMIT')),
    rollback: async () => void (await run('ROLLBACK').catch(() => {})),
  })
}

interface Ending {
  commit(): Promise<void>
  rollback(error?: unknown): Promise<void>
}

async function taken(run: Run, { kind, from, limit, history }: ClaimRequest, ending: Ending): Promise<Claim> {
  try {
    const { rows } = await run(statements.take, [firstOf(kind), slots, from, limit, history])
    if (rows.length === 0) await ending.rollback()
    return new PostgresClaim(run, ending, rows.map(rowOf))
  } catch (error) {
    await ending.rollback(error)
    throw error
  }
}

class PostgresClaim implements Claim {
  readonly rows: readonly Row[]
  readonly #run: Run
  readonly #ending: Ending

  constructor(run: Run, ending: Ending, rows: readonly Row[]) {
    this.#run = run
    this.#ending = ending
    this.rows = rows
  }

  async settle(verdicts: readonly Verdict[]): Promise<'settled' | 'lost'> {
    const changes = this.rows.flatMap((row, i) => changesOf(row, verdicts[i] as Verdict))
    try {
      if (changes.length > 0) await this.#run(statements.settle, [JSON.stringify(changes)])
      await this.#ending.commit()
      return 'settled'
    } catch (error) {
      await this.#ending.rollback(error)
      if (isLost(error)) return 'lost'
      throw error
    }
  }

  release(): Promise<void> {
    return this.#ending.rollback()
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

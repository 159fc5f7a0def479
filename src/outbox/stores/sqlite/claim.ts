import type { Clock } from '../../../core/clock.js'
import type { Connection } from '../../../databases/sqlite/connection.js'
import { newToken } from '../../../system/ids.js'
import {
  type Claim,
  type ClaimRequest,
  lineOf,
  type Row,
  slots,
  slotText,
  type Verdict,
} from '../../store.js'
import { kindNumber } from './kinds.js'
import { claim as sql } from './sql.generated.js'

/** A claim is a lease on its slots; its rows stay until it is settled. */
export function makeClaim(connection: Connection, clock: Clock): (request: ClaimRequest) => Promise<Claim> {
  const { db } = connection
  const waits = db.prepare<[number, number]>(sql.waits)
  const lease = db.prepare(sql.lease)
  const select = db.prepare<[number, number, number, number], Stored>(sql.rows)
  const holds = db.prepare<[number, number, string]>(sql.holds)
  const unlease = db.prepare(sql.unlease)
  const remove = db.prepare(sql.delete)
  const keep = db.prepare(sql.keep)
  const hold = db.prepare(sql.hold)
  const free = db.prepare(sql.free)
  const setAside = db.prepare(sql.setAside)

  return async (request) => {
    const token = newToken()
    // Looking takes no lock: an idle relay keeps nobody from writing.
    const taken = somethingWaits(request) ? await connection.write(() => take(request, token)) : nothing
    return { rows: taken.rows, settle, release }

    async function settle(verdicts: readonly Verdict[]): Promise<'settled' | 'lost'> {
      return connection.write(() => {
        if (!taken.slots.every((slot) => holds.get(kindNumber[request.kind], slot, token))) return 'lost'
        const now = clock.now()
        for (const [i, row] of taken.rows.entries()) apply(row, verdicts[i] as Verdict, now, request.history)
        giveBack()
        return 'settled'
      })
    }

    async function release(): Promise<void> {
      if (taken.slots.length > 0) await connection.write(giveBack)
    }

    function giveBack(): void {
      for (const slot of taken.slots) unlease.run(kindNumber[request.kind], slot, token)
    }
  }

  function somethingWaits({ kind }: ClaimRequest): boolean {
    for (let slot = 0; slot < slots; slot++) if (waits.get(kindNumber[kind], slot)) return true
    return false
  }

  function take({ kind, limit, from, within }: ClaimRequest, token: string): Taken {
    const now = clock.now()
    const taken: { slots: number[]; rows: Row[] } = { slots: [], rows: [] }
    for (let i = 0; i < slots && taken.rows.length < limit; i++) {
      const slot = (from + i) % slots
      if (!waits.get(kindNumber[kind], slot)) continue
      // Looked at before it is written: others see that the file has changed, and would look as well, and so on.
      const rows = affordable(select.iterate(kindNumber[kind], slot, now, limit - taken.rows.length))
      if (rows.length === 0) continue
      if (lease.run(kindNumber[kind], slot, token, now + within, now).changes === 0) continue
      taken.slots.push(slot)
      for (const { key, topic, headers, attempts, ...rest } of rows)
        taken.rows.push({
          ...rest,
          kind,
          age: Math.max(0, now - rest.at),
          key: key ?? undefined,
          topic: topic ?? undefined,
          headers: headers ?? undefined,
          attempts: attempts ?? undefined,
        })
    }
    return taken
  }

  function apply(row: Row, verdict: Verdict, now: number, history: boolean): void {
    const line = [kindNumber[row.kind], row.slot, lineOf(row)] as const
    const place = [kindNumber[row.kind], row.slot, row.seq] as const
    switch (verdict.do) {
      case 'leave':
        return
      case 'hold':
        hold.run(...line, verdict.attempts, now + verdict.delay, verdict.failure)
        return
      case 'set aside':
        setAside.run(now, verdict.attempts, verdict.failure, ...place)
        break
      case 'done':
        if (history) keep.run(now, ...place)
    }
    remove.run(...place)
    if (row.attempts !== undefined || verdict.do === 'set aside') free.run(...line)
  }
}

function affordable(rows: Iterable<Stored>): Stored[] {
  const few: Stored[] = []
  let text = 0
  for (const row of rows) {
    few.push(row)
    text += row.body.length
    if (text > slotText) break
  }
  return few
}

interface Taken {
  readonly slots: readonly number[]
  readonly rows: readonly Row[]
}

const nothing: Taken = { slots: [], rows: [] }

type Stored = { [K in keyof Omit<Row, 'kind' | 'age'>]: Exclude<Row[K], undefined> | null } & {
  seq: number
  slot: number
  id: string
  body: string
  at: number
}

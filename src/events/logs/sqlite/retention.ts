import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type { Surplus, SurplusQuery } from '../../log.js'
import { type Place, Rounds, rangeOf, window } from '../rounds.js'
import { type EventRow, toEvent } from '../rows.js'
import { atOneLook, prepare } from './prepare.js'
import { retention as sql } from './sql.generated.js'

export function makeRetention(db: Database, clock: Clock) {
  const look = prepare<object, Place>(db, sql.look)
  const find = prepare<object, EventRow>(db, sql.surplus)
  const removeThese = prepare<[string]>(db, sql.remove)
  const eraseSome = prepare<[string, number]>(db, sql.erase)
  const isLeft = prepare<[string], number>(db, sql.isLeft).pluck()
  const forgetSnapshots = prepare<[string]>(db, sql.forgetSnapshots)
  const rounds = new Rounds()

  return { surplus: atOneLook(db, surplus), remove, erase }

  function surplus(query: SurplusQuery): Surplus {
    const { age, superseded, through, limit } = query
    const range = rangeOf(query.category)
    const from = rounds.next(query)
    const to = look.get({ ...from, end: range.end, offset: window - 1 })
    const rows = find.all({
      ...range,
      ...from,
      toStream: to?.stream ?? range.end,
      toVersion: to?.version ?? 0,
      before: clock.now() - age,
      superseded: superseded ? 1 : 0,
      through,
      limit,
    })
    return rounds.looked(query, to, rows.map(toEvent))
  }

  function remove(positions: readonly number[]): void {
    removeThese.run(JSON.stringify(positions))
  }

  function erase(stream: string, limit: number): boolean {
    forgetSnapshots.run(stream)
    eraseSome.run(stream, limit)
    return isLeft.get(stream) === undefined
  }
}

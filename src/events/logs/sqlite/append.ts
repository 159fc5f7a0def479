import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type { Append, AppendResult, NewEvent } from '../../log.js'
import { slotOf } from '../../slot.js'
import { isExpected, takenId } from '../expected.js'
import { prepare } from './prepare.js'
import { append as sql } from './sql.generated.js'

interface Landed {
  readonly version: number
  readonly position: number
  readonly at: number
}

/** Appends over a connection, inside a transaction; all of them or, when it throws, none. */
export function makeAppend(db: Database, clock: Clock): (appends: readonly Append[]) => AppendResult[] {
  const versionOf = prepare<[string], number>(db, sql.version).pluck()
  const known = prepare<[string], { stream: string; version: number }>(db, sql.known)
  const landed = prepare<[string, number, number], Landed>(db, sql.landed)
  const move = prepare<[string, number]>(db, sql.move)
  const add = prepare(db, sql.add)

  return (appends) => {
    const now = clock.now()
    return appends.map((append) => repeated(append) ?? appendOne(append, now))
  }

  function repeated({ id, stream, events }: Append): AppendResult | undefined {
    const first = known.get(id)
    if (first === undefined) return undefined
    if (first.stream !== stream) throw takenId(id)
    const last = landed.get(stream, first.version, first.version + events.length - 1) as Landed
    return { status: 'appended', ...last, repeated: true }
  }

  function appendOne(append: Append, at: number): AppendResult {
    const { stream, events } = append
    const before = versionOf.get(stream) ?? 0
    if (!isExpected(append, before)) return { status: 'conflict', version: before }
    const slot = slotOf(stream)
    let version = before
    let position = 0
    for (const event of events) position = addOne(event, stream, ++version, slot, at)
    move.run(stream, version)
    return { status: 'appended', version, position, at, repeated: false }
  }

  function addOne(event: NewEvent, stream: string, version: number, slot: number, at: number): number {
    const { id, type, schema, data, meta = null } = event
    try {
      return Number(add.run(id, stream, version, slot, at, type, schema, data, meta).lastInsertRowid)
    } catch (error) {
      throw isTakenId(error) ? takenId(id) : error
    }
  }
}

function isTakenId(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string }
  return code === 'SQLITE_CONSTRAINT_UNIQUE' && message?.includes('millrace_event.id') === true
}

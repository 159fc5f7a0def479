import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import {
  type AsideQuery,
  type AsideRow,
  type Kind,
  mostCounted,
  type OutboxFigures,
  slots,
} from '../../store.js'
import { kindNumber, kindOf } from './kinds.js'
import { look as sql } from './sql.generated.js'

/** What waits, and what was set aside. */
export function makeLook(db: Database, clock: Clock) {
  const waiting = db.prepare<[number, number], number>(sql.waiting).pluck()
  const oldest = db.prepare<[number, number], number>(sql.oldest).pluck()
  const held = db.prepare<[number, number, number], number>(sql.held).pluck()
  const countAside = db.prepare<[number], number>(sql.countAside).pluck()
  const asides = db.prepare<[number, number], StoredAside>(sql.aside)
  const retry = db.prepare(sql.retry)
  const discard = db.prepare(sql.discard)

  return { figures, listAside, retryAside, discardAside }

  function figures(): OutboxFigures {
    return {
      waiting: { job: countWaiting('job'), message: countWaiting('message') },
      oldest: { job: ageOf('job'), message: ageOf('message') },
      held: { job: countHeld('job'), message: countHeld('message') },
      aside: countAside.get(mostCounted) ?? 0,
    }
  }

  function countWaiting(kind: Kind): number {
    return waiting.get(kindNumber[kind], mostCounted) ?? 0
  }

  function countHeld(kind: Kind): number {
    return held.get(kindNumber[kind], clock.now() - 60_000, mostCounted) ?? 0
  }

  function ageOf(kind: Kind): number {
    const now = clock.now()
    const ages = Array.from({ length: slots }, (_, slot) => now - (oldest.get(kindNumber[kind], slot) ?? now))
    return Math.max(...ages)
  }

  function listAside({ after, limit }: AsideQuery): AsideRow[] {
    return asides.all(after, limit).map(({ kind, key, topic, headers, ...rest }) => ({
      ...rest,
      kind: kindOf(kind),
      key: key ?? undefined,
      topic: topic ?? undefined,
      headers: headers ?? undefined,
    }))
  }

  function retryAside(ids: readonly string[]): string[] {
    return ids.filter((id) => {
      retry.run(id)
      return discard.run(id).changes > 0
    })
  }

  function discardAside(ids: readonly string[]): string[] {
    return ids.filter((id) => discard.run(id).changes > 0)
  }
}

interface StoredAside extends Omit<AsideRow, 'kind' | 'key' | 'topic' | 'headers'> {
  readonly kind: number
  readonly key: string | null
  readonly topic: string | null
  readonly headers: string | null
}

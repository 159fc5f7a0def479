import type { FanClose } from '../../core/store.js'
import { type Counts, childless } from './kin.js'
import { family as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

export type Fans = ReturnType<typeof makeFans>

/** Children of the steps of a job, by the id that those of one step share. */
export function makeFans({ db }: Tables) {
  const open = db.prepare<[number, string]>(sql.isFanOpen)
  const closed = db.prepare<[number, string]>(sql.isFanClosed)
  const closeOne = db.prepare<[string, number]>(sql.closeFan)
  const counts = db.prepare<[number], Counts>(sql.family)
  const lessFailed = db.prepare(sql.lessFailed)
  const forgetLinks = db.prepare(sql.forgetFans)
  const withoutFans = db.prepare(sql.withoutFans)

  return { isOver, isClosed, close, forget }

  /** Whether all of it have ended. */
  function isOver(seq: number, fan: string): boolean {
    return open.get(seq, fan) === undefined
  }

  /** Whether its children stay as they ended. */
  function isClosed(seq: number, fan: string): boolean {
    return closed.get(seq, fan) !== undefined
  }

  /** What of these cannot be closed, because a child was replayed since its end was read. */
  function close(seq: number, closes: readonly FanClose[]): string[] {
    const known = counts.get(seq) ?? childless
    return closes.flatMap(({ fan, replays }) => {
      if (isClosed(seq, fan)) return []
      if (replays !== known.replays || !isOver(seq, fan)) return [fan]
      closeOne.run(fan, seq)
      return []
    })
  }

  /** They are forgotten with the steps that added them. */
  function forget(seq: number): void {
    lessFailed.run(seq)
    const { changes } = forgetLinks.run(seq)
    if (changes > 0) withoutFans.run(changes, seq)
  }
}

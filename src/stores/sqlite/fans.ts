import { family as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

export type Fans = ReturnType<typeof makeFans>

/** Children of the steps of a job, by the id that those of one step share. */
export function makeFans({ db }: Tables) {
  const open = db.prepare<[number, string]>(sql.isFanOpen)
  const closed = db.prepare<[number, string]>(sql.isFanClosed)
  const closeOne = db.prepare<[string, number]>(sql.closeFan)
  const reopenOne = db.prepare<[string, number]>(sql.reopenFan)
  const lessFailed = db.prepare(sql.lessFailed)
  const forgetLinks = db.prepare(sql.forgetFans)
  const withoutFans = db.prepare(sql.withoutFans)

  return { isOver, isClosed, close, reopen, forget }

  /** Whether all of it have ended. */
  function isOver(seq: number, fan: string): boolean {
    return open.get(seq, fan) === undefined
  }

  /** Whether its children stay as they ended. */
  function isClosed(seq: number, fan: string): boolean {
    return closed.get(seq, fan) !== undefined
  }

  /** What of these cannot be closed, because a child of it was replayed and has not ended. */
  function close(seq: number, fans: readonly string[]): string[] {
    const open = fans.filter((fan) => !isOver(seq, fan))
    for (const fan of fans) if (!open.includes(fan) && !isClosed(seq, fan)) closeOne.run(fan, seq)
    return open
  }

  function reopen(seq: number, fan: string): void {
    reopenOne.run(fan, seq)
  }

  /** They are forgotten with the steps that added them. */
  function forget(seq: number): void {
    lessFailed.run(seq)
    const { changes } = forgetLinks.run(seq)
    if (changes > 0) withoutFans.run(changes, seq)
  }
}

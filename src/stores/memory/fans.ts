import { standsInTheWay } from '../../core/family.js'
import type { Entry } from './entry.js'

/** Children of its steps are forgotten with these. */
export function forgetFans({ story }: Entry): void {
  story?.parenthood?.forgetFans(({ end, onFailure }) => end !== undefined && standsInTheWay(end, onFailure))
}

/** What of these fans cannot be closed, because a child of it was replayed and has not ended. */
export function closeFans({ story }: Entry, fans: readonly string[]): string[] {
  const open = fans.filter((fan) => story?.parenthood?.isOver(fan) === false)
  for (const fan of fans) if (!open.includes(fan)) story?.parenthood?.closed.add(fan)
  return open
}

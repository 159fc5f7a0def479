import type { FanClose } from '../../core/store.js'
import type { Entry } from './entry.js'

/** Children of its steps are forgotten with these. */
export function forgetFans({ story }: Entry): void {
  story?.parenthood?.forgetFans()
}

/** What of these fans cannot be closed, because a child was replayed since its end was read. */
export function closeFans({ story }: Entry, closes: readonly FanClose[]): string[] {
  const parenthood = story?.parenthood
  if (parenthood === undefined) return []
  const { closed } = parenthood
  for (const { fan, replays } of closes)
    if (replays === parenthood.replays && parenthood.isOver(fan)) closed.add(fan)
  return closes.map(({ fan }) => fan).filter((fan) => !closed.has(fan))
}

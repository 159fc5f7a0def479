/**
 * A clock that was set back leaves times ahead of it. Rates, holds and breakers then wait no longer than they
 * would have from now on; what is due at a certain time waits until the clock says so.
 */

/** Times ahead of the clock by no more than this are left alone: two processes, two looks at it. */
export const clockSlack = 1_000

/** From when until when something is closed. */
export interface Span {
  readonly from: number
  readonly until: number
}

export const noSpan: Span = { from: 0, until: 0 }

export function spanIsAhead({ from }: Span, now: number): boolean {
  return from > now + clockSlack
}

/** As long as it was meant to be. */
export function spanSetBack({ from, until }: Span, now: number): Span {
  const isEndless = until === Number.MAX_SAFE_INTEGER
  return { from: now, until: isEndless ? until : now + (until - from) }
}

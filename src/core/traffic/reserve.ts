/**
 * Who asks a limiter for several permits at once would never see so many free while others take them one by one.
 * So the first of them has what it needs put aside, for as long as it keeps asking. When it was served, nothing is put
 * aside for the next before others have had a permit, or a moment to ask for one.
 */

export interface Reservation {
  /** Undefined once it was served: then the others are next. */
  readonly by: string | undefined
  readonly permits: number
  /** Who does not ask again by then has given up, or is gone. */
  readonly until: number
}

/** Milliseconds. Those who wait ask at least every second. */
const patience = 2_000

/** Permits that are put aside for another than this one. */
export function reservedFor(
  reserved: Reservation | undefined,
  waiter: string | undefined,
  now: number,
): number {
  if (reserved?.by === undefined || reserved.by === waiter || !stands(reserved, now)) return 0
  return reserved.permits
}

export function afterRefusal(
  reserved: Reservation | undefined,
  waiter: string,
  permits: number,
  now: number,
): Reservation | undefined {
  const isTaken = reserved !== undefined && reserved.by !== waiter && stands(reserved, now)
  return isTaken || permits === 1 ? reserved : { by: waiter, permits, until: now + patience }
}

/** Permits were given, to one who waited or, without `waiter`, to jobs. */
export function afterGrant(
  reserved: Reservation | undefined,
  waiter: string | undefined,
  now: number,
): Reservation | undefined {
  if (reserved?.by === undefined) return undefined
  return reserved.by === waiter ? { by: undefined, permits: 0, until: now + patience } : reserved
}

/** No longer than that either when the clock is set back. */
function stands({ until }: Reservation, now: number): boolean {
  return now < until && until <= now + patience
}

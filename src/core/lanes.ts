/**
 * Lanes are priorities inside a queue. Weighted by default: out of 15 turns critical has 8, high 4,
 * default 2 and low 1, and a turn that its lane cannot use goes to the most urgent lane that can. So an
 * urgent lane never waits past its weight, and a low lane never starves. `strict` gives every turn to the
 * most urgent lane instead. Reserved slots are used by their lane alone.
 */

export const laneNames = ['critical', 'high', 'default', 'low'] as const
export type Priority = (typeof laneNames)[number]
export const laneCount = laneNames.length

export interface LanePolicy {
  readonly strict: boolean
  /** The turns of one full round, spread evenly: see `spreadTurns`. */
  readonly turns: readonly number[]
  /** Slots per lane that no other lane may use. */
  readonly reserved: readonly number[]
}

/** How many jobs may be claimed: `own[lane]` by that lane alone, `shared` by any. */
export interface Room {
  readonly shared: number
  readonly own: readonly number[]
}

export interface Pick {
  readonly queue: string
  readonly lane: number
  /** The lane's share of this claim; what others leave unused comes on top, in the order of the picks. */
  readonly take: number
}

/** Spreads weights over one round so that no lane waits longer than its share: 8:4:2:1 gives C H C D C H C … */
export function spreadTurns(weights: readonly number[]): number[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const credit = weights.map(() => 0)
  return Array.from({ length: total }, () => {
    let best = 0
    for (let lane = 0; lane < weights.length; lane++) {
      credit[lane] = (credit[lane] ?? 0) + (weights[lane] ?? 0)
      if ((credit[lane] ?? 0) > (credit[best] ?? 0)) best = lane
    }
    credit[best] = (credit[best] ?? 0) - total
    return best
  })
}

/** `free` slots, less what other lanes have reserved and not yet in use. */
export function roomFor(free: number, policy: LanePolicy, activeByLane: readonly number[]): Room {
  const own = policy.reserved.map((slots, lane) => Math.max(0, slots - (activeByLane[lane] ?? 0)))
  const held = own.reduce((sum, slots) => sum + slots, 0)
  return { shared: Math.max(0, free - held), own }
}

/** How far a worker has come: `turn` counts the jobs that it was given, `claim` its claims. */
export interface Progress {
  readonly turn: number
  readonly claim: number
}

/** The picks of one claim, most urgent lane first; queues take turns to be the first of their lane. */
export function planPicks(
  room: Room,
  policy: LanePolicy,
  queues: readonly string[],
  { turn, claim }: Progress,
): Pick[] {
  const total = room.own.reduce((sum, slots) => sum + slots, room.shared)
  const shares = policy.strict ? policy.turns.map(() => total) : lanesOfTurns(policy.turns, turn, total)
  const picks: Pick[] = []
  for (let lane = 0; lane < laneCount; lane++) {
    for (let i = 0; i < queues.length; i++) {
      const share = shares[lane] ?? 0
      const take = policy.strict
        ? total
        : Math.floor(share / queues.length) + (i < share % queues.length ? 1 : 0)
      picks.push({ queue: queues[(i + claim) % queues.length] as string, lane, take })
    }
  }
  return picks
}

function lanesOfTurns(turns: readonly number[], from: number, count: number): number[] {
  const shares = new Array<number>(laneCount).fill(0)
  const rounds = Math.floor(count / turns.length)
  if (rounds > 0) for (const lane of turns) shares[lane] = (shares[lane] ?? 0) + rounds
  for (let i = 0; i < count % turns.length; i++) {
    const lane = turns[(from + i) % turns.length] as number
    shares[lane] = (shares[lane] ?? 0) + 1
  }
  return shares
}

/**
 * Carries out the picks: first each lane's share, then what is left of the room in the order of the picks.
 * `take` returns how many jobs it found. Engines that claim in one statement follow the same rule.
 */
export function takeByPicks(
  room: Room,
  picks: readonly Pick[],
  take: (queue: string, lane: number, count: number) => number,
): void {
  let shared = room.shared
  const own = [...room.own]
  const emptied = new Set<Pick>()
  for (const pass of ['share', 'rest'] as const) {
    for (const pick of picks) {
      if (emptied.has(pick)) continue
      const mine = own[pick.lane] ?? 0
      const want = Math.min(shared + mine, pass === 'share' ? pick.take : Number.POSITIVE_INFINITY)
      if (want <= 0) continue
      const found = take(pick.queue, pick.lane, want)
      if (found < want) emptied.add(pick)
      own[pick.lane] = mine - Math.min(found, mine)
      shared -= Math.max(0, found - mine)
    }
  }
}

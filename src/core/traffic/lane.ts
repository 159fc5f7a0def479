/**
 * One lane of a queue that has limits or groups: the plain line, and those of traffic control. They take turns, and
 * a closed one keeps nobody waiting.
 */

import type { ClaimRequest } from '../store.js'
import { mostMoved, type TrafficControl } from './control.js'
import type { Gate } from './gate.js'
import type { Line, Waiting } from './places.js'
import { takeByTurns } from './turns.js'

/** What an engine has in a lane. */
export interface TrafficLane<L extends Line> {
  readonly queue: string
  /** Whether jobs stand in the plain line. */
  readonly hasPlain: boolean
  readonly lines: readonly L[]
}

/** How an engine takes jobs out of it. */
export interface TakeFromLane<J> {
  readonly turn: number
  readonly now: number
  /** Takes the first jobs out of the plain line. */
  plain(count: number): J[]
  start(job: J, suspect: boolean): void
}

/** `more`: it has not looked at all that may start, so that another claim is worth it at once. */
export interface LaneTaken {
  readonly found: number
  readonly more: boolean
}

/** Without those of definitions that a worker does not have: it would put their jobs off and use up their limits. */
export function knownLines<L extends Line>(lines: readonly L[], known: ClaimRequest['known']): readonly L[] {
  if (known === undefined) return lines
  return lines.filter(({ name }) => name === '' || known.has(name))
}

/** Whether any of its lines has jobs and room. */
export function couldStart<J extends Waiting<G>, L extends Line, G extends Gate>(
  traffic: TrafficControl<J, L, G>,
  lane: TrafficLane<L>,
  now: number,
): boolean {
  return waitingNames(lane).some((name) => traffic.room(lane.queue, name, now) > 0)
}

/** When the first of its closed lines opens by itself. */
export function laneOpensAt<J extends Waiting<G>, L extends Line, G extends Gate>(
  traffic: TrafficControl<J, L, G>,
  lane: TrafficLane<L>,
  now: number,
): number {
  const closed = waitingNames(lane).filter((name) => traffic.room(lane.queue, name, now) === 0)
  return Math.min(...closed.map((name) => traffic.opensAt(lane.queue, name, now)), Number.POSITIVE_INFINITY)
}

/** Of the lines that have jobs; the plain one's is empty. */
function waitingNames({ hasPlain, lines }: TrafficLane<Line>): string[] {
  const names = lines.filter(({ isEmpty }) => !isEmpty).map(({ name }) => name)
  return hasPlain ? ['', ...names] : names
}

/** Starts up to `count` jobs of a lane. */
export function takeFromLane<J extends Waiting<G>, L extends Line, G extends Gate>(
  traffic: TrafficControl<J, L, G>,
  lane: TrafficLane<L>,
  count: number,
  { turn, now, plain, start }: TakeFromLane<J>,
): LaneTaken {
  const { queue } = lane
  // Jobs went to a line that may not have been looked at.
  let moved = false
  let more = false
  let found = takeOpen(count)
  if (moved && found < count) found += takeOpen(count - found)
  return { found, more }

  function takeOpen(most: number): number {
    const open: (L | undefined)[] = []
    if (lane.hasPlain && traffic.room(queue, '', now) > 0) open.push(undefined)
    for (const line of lane.lines)
      if (!line.isEmpty && traffic.room(queue, line.name, now) > 0) open.push(line)
    return takeByTurns(open, most, turn, (line, share) =>
      line === undefined ? takeFromPlain(share) : takeFromLine(line, share),
    )
  }

  function takeFromLine(line: L, share: number): number {
    const most = Math.min(share, traffic.room(queue, line.name, now))
    const taken = traffic.take(line, most, now)
    if (taken.moved) moved = true
    if (taken.jobs.length < most && !line.isEmpty) more = true
    const suspect = traffic.isSuspect(line.name)
    for (const job of taken.jobs) start(job, suspect)
    return taken.jobs.length
  }

  /** Jobs whose definition got limits while they waited go to a line of their own. */
  function takeFromPlain(share: number): number {
    let taken = 0
    for (let looked = 0; ; ) {
      const most = Math.min(share - taken, traffic.room(queue, '', now))
      if (most <= 0) break
      if (looked >= mostMoved) {
        more ||= lane.hasPlain
        break
      }
      const jobs = plain(most)
      if (jobs.length === 0) break
      looked += jobs.length
      let free = 0
      for (const job of jobs) {
        if (traffic.jobGate(job.job.name) === undefined) {
          start(job, false)
          free++
        } else {
          traffic.enter(job, false, now)
          moved = true
        }
      }
      traffic.started(queue, '', free, now)
      taken += free
    }
    return taken
  }
}

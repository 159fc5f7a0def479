/**
 * Turns inside a lane. Jobs of a group (or of a key, when they have no group) are dealt out in turns: each job
 * gets a tag when it enters its line, one turn behind the one before it of the same group and never behind what
 * the line has already served, and the line hands out the lowest tag first. So a group with a million waiting
 * jobs delays another's first job by one turn at most, and a claim takes the head of a line as it would without
 * groups. A group of weight 3 gets three jobs per turn.
 */

/** How far a group has come in its line. */
export interface TurnOwner {
  /** Tag of the job that entered last. */
  tag: number
  /** Tag of the last job that came back: a retry does not queue up behind all the work of its group. */
  backTag: number
}

/** `served` is the tag that the line has handed out last. */
export function nextTag(owner: TurnOwner, served: number, weight: number, comesBack: boolean): number {
  const before = comesBack ? owner.backTag : owner.tag
  const tag = Math.max(served, before) + 1 / weight
  if (comesBack) owner.backTag = tag
  // What comes later stands behind it, a retry or not.
  owner.tag = Math.max(owner.tag, tag)
  return tag
}

/** Steps of this share of a round meet all lines evenly, whichever turns a lane gets: every second, every fifth. */
const step = 0.6180339887498949

/**
 * Takes up to `count` jobs from the lines of one lane: equal shares, the first of which goes to another line
 * by turns, then what is left to whoever has more. `take` returns how many jobs it found.
 */
export function takeByTurns<Line>(
  lines: readonly Line[],
  count: number,
  turn: number,
  take: (line: Line, count: number) => number,
): number {
  let found = 0
  const more: Line[] = []
  const first = Math.floor(((turn * step) % 1) * lines.length)
  for (let i = 0; i < lines.length; i++) {
    const line = lines[(first + i) % lines.length] as Line
    const share = Math.floor(count / lines.length) + (i < count % lines.length ? 1 : 0)
    const taken = share === 0 ? 0 : take(line, share)
    found += taken
    if (taken === share) more.push(line)
  }
  for (const line of more) if (found < count) found += take(line, count - found)
  return found
}

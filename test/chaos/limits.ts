/** Judges from the claims of all processes whether limits held: I7 (rate) and I8 (what runs at the same time). */
import type { Violation } from './checker.js'
import type { HistoryEvent } from './journal.js'

export interface Limits {
  readonly rate: { readonly max: number; readonly per: number }
  readonly concurrency: number
  readonly perKey: number
}

interface Held {
  readonly key: string
  /** By the store's clock. */
  readonly from: number
  /** Not before: when the settlement that ended it was sent. */
  readonly to: number
  /** It came back without having started, which gives its place in the rate to another. */
  readonly isIdle: boolean
}

/** `keyOf` tells the key of a job that has these limits, and undefined for others. */
export function checkLimits(
  events: readonly HistoryEvent[],
  keyOf: (id: string) => string | undefined,
  limits: Limits,
): Violation[] {
  const held = leasesOf(events, keyOf)
  const violations: Violation[] = []
  const starts = held
    .filter(({ isIdle }) => !isIdle)
    .map(({ from }) => from)
    .sort((a, b) => a - b)
  const burst = mostIn(starts, limits.rate.per)
  if (burst > limits.rate.max)
    violations.push({
      invariant: 'I7',
      text: `${burst} starts in ${limits.rate.per} ms, limit ${limits.rate.max}`,
    })
  const running = mostAtOnce(held)
  if (running > limits.concurrency)
    violations.push({ invariant: 'I8', text: `${running} ran at the same time, limit ${limits.concurrency}` })
  for (const key of new Set(held.map((lease) => lease.key))) {
    const most = mostAtOnce(held.filter((lease) => lease.key === key))
    if (most > limits.perKey)
      violations.push({
        invariant: 'I8',
        text: `${most} of key ${key} ran at the same time, limit ${limits.perKey}`,
      })
  }
  return violations
}

function leasesOf(events: readonly HistoryEvent[], keyOf: (id: string) => string | undefined): Held[] {
  const ends = new Map<string, number>()
  const tries = new Map<string, number>()
  const idle = new Set<string>()
  for (const event of events) {
    if (event.e !== 'settle-try' && event.e !== 'settle-result') continue
    const name = `${event.id} ${event.token}`
    // A settlement may be sent again, and a lost worker's by several others at once: the last one that its sender had
    // sent before the answer is the one answered.
    const sent = `${name} ${event.by}`
    if (event.e === 'settle-try') tries.set(sent, event.t)
    else if (event.result !== 'lost' && !ends.has(name)) {
      ends.set(name, tries.get(sent) ?? event.t)
      if (event.idle === true) idle.add(name)
    }
  }
  const leases = new Map<string, Held>()
  for (const event of events) {
    if (event.e !== 'claim') continue
    const key = keyOf(event.id)
    const name = `${event.id} ${event.token}`
    // One whose end nobody saw may have ended with its claim: it can only be counted in favour.
    if (key !== undefined)
      leases.set(name, {
        key,
        from: event.claimedAt,
        to: ends.get(name) ?? event.claimedAt,
        isIdle: idle.has(name),
      })
  }
  return [...leases.values()]
}

/** The most of these times, which ascend, in any window that begins with one of them. */
function mostIn(times: readonly number[], per: number): number {
  let most = 0
  let end = 0
  for (const [start, from] of times.entries()) {
    while (end < times.length && (times[end] as number) < from + per) end++
    most = Math.max(most, end - start)
  }
  return most
}

function mostAtOnce(held: readonly Held[]): number {
  const changes = held.flatMap(({ from, to }) => [[from, 1] as const, [to, -1] as const])
  // What ends in the same millisecond may have ended before.
  changes.sort(([a, up], [b, down]) => a - b || up - down)
  let now = 0
  let most = 0
  for (const [, change] of changes) {
    now += change
    most = Math.max(most, now)
  }
  return most
}

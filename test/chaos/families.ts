/**
 * Judges jobs that wait for others: I10. Each parent runs to its end once, after all of its children have ended; and a
 * batch tells what has become of it.
 */
import type { FinalJob, Violation } from './checker.js'
import type { HistoryEvent } from './journal.js'

/** A parent with the children that it was given. */
export interface ChaosFamily {
  readonly id: string
  /** Their ids; of a fan, which has them named by the product, how many. */
  readonly children: readonly string[] | number
  /** `flow`: begins when its children have ended, and dies of those that failed. `fan`: adds them itself. */
  readonly kind: 'flow' | 'fan' | 'batch'
  /** Children whose failure it lives with. */
  readonly spared: ReadonlySet<string>
}

export function checkFamilies(
  events: readonly HistoryEvent[],
  jobs: readonly FinalJob[],
  families: readonly ChaosFamily[],
): Violation[] {
  const violations: Violation[] = []
  const accuse = (text: string) => violations.push({ invariant: 'I10', text })
  const states = new Map(jobs.map(({ id, state }) => [id, state]))
  const failures = new Map(jobs.map(({ id, failureCode }) => [id, failureCode]))
  const times = timesOf(events)
  for (const { id, children: given, kind, spared } of families) {
    const state = states.get(id)
    const children =
      typeof given === 'number'
        ? jobs.filter(({ parents }) => parents?.includes(id)).map((job) => job.id)
        : given
    if (typeof given === 'number' && children.length !== given)
      accuse(`${id} has ${children.length} children, it was to add ${given}`)
    const missing = children.filter((child) => !states.has(child))
    if (missing.length > 0) accuse(`${id} misses ${missing.length} of its children, such as ${missing[0]}`)
    const isFatal = (child: string) => states.get(child) !== 'completed' && !spared.has(child)
    const diesOfThem = kind === 'flow' && children.some(isFatal)
    if (state === undefined || (failures.get(id) === 'CHILD_FAILED') !== diesOfThem)
      accuse(`${id} is ${state} ${failures.get(id) ?? ''}; its children are to kill it: ${diesOfThem}`)
    const parent = times.get(id)
    const from = kind === 'flow' ? parent?.firstStart : parent?.lastEnd
    const early = children.filter((child) => (times.get(child)?.firstEnd ?? Infinity) > (from ?? Infinity))
    if (from !== undefined && early.length > 0)
      accuse(`${id} went on before ${early.length} of its children had ended, such as ${early[0]}`)
    if (kind === 'batch') for (const text of wrongCallbacks(id, children, states)) accuse(text)
  }
  return violations
}

function wrongCallbacks(
  id: string,
  children: readonly string[],
  states: ReadonlyMap<string, string>,
): string[] {
  const ends = children.map((child) => states.get(child))
  const due = {
    onComplete: true,
    onSuccess: ends.every((end) => end === 'completed'),
    onDead: ends.includes('dead'),
  }
  return Object.entries(due).flatMap(([event, isDue]) => {
    const state = states.get(`${id}.${event}`)
    const isTold = state === 'completed'
    return isTold === isDue && (isTold || state === undefined)
      ? []
      : [`${id}: ${event} is ${state}, due: ${isDue}`]
  })
}

interface Times {
  firstStart: number | undefined
  /** Of its tries to store an end: a worker that is killed hears of none. */
  firstEnd: number | undefined
  lastEnd: number | undefined
}

function timesOf(events: readonly HistoryEvent[]): ReadonlyMap<string, Times> {
  const times = new Map<string, Times>()
  for (const event of events) {
    if (event.e !== 'start' && event.e !== 'settle-try') continue
    const own = times.get(event.id) ?? { firstStart: undefined, firstEnd: undefined, lastEnd: undefined }
    times.set(event.id, own)
    if (event.e === 'start') own.firstStart ??= event.t
    else if (['completed', 'dead', 'cancelled'].includes(event.to)) {
      own.firstEnd ??= event.t
      own.lastEnd = event.t
    }
  }
  return times
}

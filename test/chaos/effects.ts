/**
 * Judges what the steps of jobs did to the world outside. A step that was killed before its memo was written runs
 * again, under the same key; one whose memo was acknowledged never does.
 */
import type { FinalJob, Violation } from './checker.js'
import { bookingSteps, steppedSteps } from './jobs.js'
import type { HistoryEvent } from './journal.js'

export interface EffectVerdict {
  readonly effects: number
  /** Effects that came twice under one key, because the worker was killed before it could say so. */
  readonly repeated: number
  readonly violations: readonly Violation[]
}

interface JobEffects {
  /** Names of steps in the order in which they first took effect. */
  readonly names: string[]
  readonly keptAt: Map<string, number>
  count: number
}

export function checkEffects(
  events: readonly HistoryEvent[],
  jobs: readonly FinalJob[],
  isSaga: (id: string) => boolean,
): EffectVerdict {
  const violations: Violation[] = []
  const accuse = (text: string) => violations.push({ invariant: 'I12', text })
  const byJob = new Map<string, JobEffects>()
  const of = (id: string) => {
    const known = byJob.get(id) ?? { names: [], keptAt: new Map<string, number>(), count: 0 }
    byJob.set(id, known)
    return known
  }
  for (const event of events) {
    if (event.e === 'step-kept' && !of(event.id).keptAt.has(event.name))
      of(event.id).keptAt.set(event.name, event.t)
    if (event.e !== 'effect') continue
    const job = of(event.id)
    job.count++
    if (!job.names.includes(event.name)) job.names.push(event.name)
    if (event.t > (job.keptAt.get(event.name) ?? Number.POSITIVE_INFINITY))
      accuse(`${event.id}: '${event.name}' took effect again after its step was kept`)
  }
  for (const { id, state } of jobs) {
    const { names } = of(id)
    const wrong = isSaga(id) ? judgeSaga(names, state) : judgeStepped(names, state)
    if (wrong !== undefined) accuse(`${id} is ${state}: ${wrong}: ${names.join(', ')}`)
  }
  const all = [...byJob.values()]
  const effects = all.reduce((sum, { count }) => sum + count, 0)
  const distinct = all.reduce((sum, { names }) => sum + names.length, 0)
  return { effects, repeated: effects - distinct, violations }
}

function judgeStepped(names: readonly string[], state: string): string | undefined {
  if (state !== 'completed') return 'it did not complete'
  return same(names, steppedSteps) ? undefined : 'not each step once, in order'
}

function judgeSaga(names: readonly string[], state: string): string | undefined {
  const done = names.filter((name) => !name.startsWith('undo:'))
  const undone = names.filter((name) => name.startsWith('undo:'))
  if (!same(done, bookingSteps.slice(0, done.length))) return 'steps are not done in order'
  if (state === 'completed')
    return undone.length === 0 && done.length === bookingSteps.length ? undefined : 'not all was done'
  if (state !== 'cancelled') return 'it is neither done nor undone'
  const reach = bookingSteps.findIndex((name) => `undo:${name}` === undone[0])
  const expected = bookingSteps
    .slice(0, reach + 1)
    .reverse()
    .map((name) => `undo:${name}`)
  if (!same(undone, expected)) return 'not undone in reverse'
  if (reach < done.length - 1) return 'something that was done was not undone'
  return same(names, [...done, ...undone]) ? undefined : 'something was done after the undoing began'
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.join() === b.join()
}

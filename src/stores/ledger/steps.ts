import type { StepRecord } from '../../core/step.js'
import { type Entry, storyOf } from './entry.js'
import type { Tables } from './tables.js'

/** The steps of one job, by name, in the order in which they were written. */
export interface Steps {
  /** One that is there already is written anew and keeps its place. */
  write(step: StepRecord): void
  /** Those that wait for something. */
  open(): readonly StepRecord[]
}

export function writeSteps(tables: Tables, entry: Entry, steps: readonly StepRecord[]): void {
  const story = storyOf(entry)
  story.steps ??= tables.newSteps(entry)
  for (const step of steps) story.steps.write(step)
}

/** Ends the sleeps and waits whose time has come; tells whether there were any. */
export function endOverdue({ story }: Entry, now: number): boolean {
  const steps = story?.steps
  let ended = false
  for (const step of steps?.open() ?? []) {
    if (step.until === undefined || step.until > now) continue
    steps?.write({ ...step, open: false })
    ended = true
  }
  return ended
}

import type { StepRecord } from '../../core/step.js'
import { type Entry, storyOf } from './entry.js'

/** A step that is there already is written anew and keeps its place. */
export function writeSteps(entry: Entry, steps: readonly StepRecord[]): void {
  const story = storyOf(entry)
  story.steps ??= new Map()
  for (const step of steps) story.steps.set(step.name, step)
}

/** Ends the sleeps and waits whose time has come; tells whether there were any. */
export function endOverdue({ story }: Entry, now: number): boolean {
  const steps = story?.steps
  let ended = false
  for (const step of steps?.values() ?? []) {
    if (!step.open || step.until === undefined || step.until > now) continue
    steps?.set(step.name, { ...step, open: false })
    ended = true
  }
  return ended
}

/**
 * The lockstep test: random runs with dedupe, depth limits and all of traffic control, done to a store and to a
 * reference at once. What they show must be the same after every step, and must be true of the jobs there are.
 */
import type { StoreHarness } from './harness.js'
import { LockstepRun } from './lockstep-run.js'
import { type LockstepStep, lockstepStepsOf } from './lockstep-steps.js'
import { checkProperty, type PropertyOptions } from './property.js'

export interface LockstepOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
  /** @default none: the store's counts are checked against its own jobs */
  readonly reference?: (() => Promise<StoreHarness>) | undefined
}

export function checkLockstep({ make, reference, ...options }: LockstepOptions): Promise<void> {
  return checkProperty('the stores part, or lose count', options, lockstepStepsOf, async (steps, at) => {
    const harnesses: StoreHarness[] = []
    try {
      if (reference !== undefined) harnesses.push(await reference())
      harnesses.push(await make())
      const run = new LockstepRun(harnesses)
      for (const step of steps) await at(nameOf(step), () => run.take(step))
      await at('all that is kept', () => run.lookAtAll())
      await at('drain', () => run.drain())
    } finally {
      for (const harness of harnesses) await harness.close()
    }
  })
}

function nameOf(step: LockstepStep): string {
  return step.step === 'turn' ? step.verbs.map(({ verb }) => verb).join(', ') : step.step
}

import type { StepRecord } from '../../core/step.js'
import type { Steps } from '../ledger/steps.js'

export class MemorySteps implements Steps {
  readonly #byName = new Map<string, StepRecord>()

  all(): StepRecord[] {
    return [...this.#byName.values()]
  }

  write(step: StepRecord): void {
    this.#byName.set(step.name, step)
  }

  open(): StepRecord[] {
    return this.all().filter(({ open }) => open)
  }
}

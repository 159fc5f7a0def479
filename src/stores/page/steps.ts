import type { StepRecord } from '../../core/step.js'
import type { Steps } from '../ledger/steps.js'
import type { Page } from './page.js'

/** The steps of one job: only those that are open are ever read here. */
export class PagedSteps implements Steps {
  readonly #page: Page
  readonly #seq: number
  readonly #isNew: boolean
  readonly written = new Map<string, StepRecord>()

  constructor(page: Page, seq: number, isNew: boolean) {
    this.#page = page
    this.#seq = seq
    this.#isNew = isNew
  }

  write(step: StepRecord): void {
    this.written.set(step.name, step)
  }

  open(): StepRecord[] {
    const texts = this.#isNew ? [] : (this.#page.row<string[]>('openSteps', String(this.#seq)) ?? [])
    const stored = texts.map((text) => readStep(text))
    const others = stored.filter(({ name }) => !this.written.has(name))
    return [...others, ...[...this.written.values()].filter(({ open }) => open)]
  }
}

export function readStep(text: string): StepRecord {
  return {
    value: undefined,
    until: undefined,
    signal: undefined,
    ...(JSON.parse(text) as Partial<StepRecord>),
  } as StepRecord
}

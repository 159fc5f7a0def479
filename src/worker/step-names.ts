import { bounds } from '../core/bounds.js'
import { MillraceError } from '../core/errors.js'
import { invalid, jobId } from '../core/options.js'
import type { Part } from './step-parts.js'

/** Names of the steps that a run has taken. */
export class StepNames {
  readonly #jobId: string
  readonly #taken = new Set<string>()
  readonly #calls = new Map<string, Calls>()

  constructor(jobId: string) {
    this.#jobId = jobId
  }

  /** In the order of the calls; the same name again is numbered. */
  take(base: string, part: Part | undefined): string {
    if (this.#taken.size >= bounds.steps) throw tooMany(this.#jobId)
    const calls = this.#calls.get(base) ?? { count: 0, parts: [] }
    if (part !== undefined && calls.parts.some((other) => mayComeFirst(part, other))) throw ambiguous(base)
    let name: string
    do name = ++calls.count === 1 ? base : `${base}#${calls.count}`
    while (this.#taken.has(name))
    if (part !== undefined) calls.parts.push({ part, isLate: !part.isStarting })
    this.#calls.set(base, calls)
    this.#taken.add(name)
    return name
  }

  /** Names that an earlier run took and this one will not. */
  keep(names: readonly string[]): void {
    for (const name of names) this.#taken.add(name)
  }
}

/** Calls of one name, and the parts that made some of them. */
interface Calls {
  count: number
  readonly parts: { readonly part: Part; readonly isLate: boolean }[]
}

/** Which of the two takes the name first could be another in the next run. */
function mayComeFirst(part: Part, other: Calls['parts'][number]): boolean {
  return (other.isLate || !part.isStarting) && part.goesBeside(other.part)
}

export function stepName(name: string): string {
  if (jobId(name, 'step').startsWith(':'))
    throw invalid('step', name, 'a name that does not begin with a colon')
  return name
}

function ambiguous(name: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${name}' is taken by several parts of step.all or step.race at times of their own, so that a later run could mistake one for the other; give each a name of its own, as in \`${name}:\${id}\``,
    { field: 'step', value: name },
  )
}

function tooMany(id: string): MillraceError {
  return new MillraceError(
    'TOO_MANY_STEPS',
    `job ${id} takes more than ${bounds.steps} steps; do more in each, or give parts of the work to other jobs`,
    { field: 'step', limit: bounds.steps },
  )
}

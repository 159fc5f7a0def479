import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import type { AnyJob } from '../core/definition.js'
import { describeFailure } from '../core/failure.js'
import { isAskedFor, type LinkRecord } from '../core/family.js'
import type { NewJob } from '../core/job.js'
import type { LinkPage, LinkQuery } from '../core/store.js'
import type { Fan } from '../worker/step-children.js'

/** A child that has ended, for a handler that is tried by itself. */
export interface TrialChild {
  readonly job: AnyJob
  /** Its name in the flow. */
  readonly node?: string
  /** The `step.children` that added it: that step is done, and these are all of its children. */
  readonly step?: string
  readonly result?: unknown
  /** What it died of; then it has no result. */
  readonly error?: unknown
}

/** What a handler that is tried by itself can see of children. */
export class TrialChildren {
  readonly #links: LinkRecord[] = []
  readonly #parent: string
  /** What the steps that added them kept. */
  readonly fans: Readonly<Record<string, Fan>>

  constructor(parent: string, given: readonly TrialChild[]) {
    this.#parent = parent
    const counts = new Map<string, number>()
    for (const child of given) {
      const group = child.step ?? ''
      const count = counts.get(group) ?? 0
      counts.set(group, count + 1)
      this.#links.push(ended(parent, `${parent}.${group}.${String(count).padStart(7, '0')}`, child))
    }
    counts.delete('')
    this.fans = Object.fromEntries(
      [...counts].map(([step, count]) => [step, { id: `${parent}.${step}`, count }]),
    )
  }

  add(jobs: readonly NewJob[]): void {
    for (const { id, name, family } of jobs) {
      const fan = family?.parents[0]?.fan
      this.#links.push({ ...unended, parent: this.#parent, child: id, name, fan })
    }
  }

  readonly read = async (query: LinkQuery): Promise<LinkPage> => {
    const { prefix = '' } = query
    const links = this.#links.filter((link) => link.child.startsWith(prefix) && isAskedFor(link, query))
    return { links, cursor: undefined }
  }
}

const unended = {
  node: undefined,
  onFailure: 'continue',
  end: undefined,
  endedAt: undefined,
  result: undefined,
  failure: undefined,
  undo: undefined,
  undone: false,
} as const

function ended(parent: string, child: string, { job, node, step, result, error }: TrialChild): LinkRecord {
  return {
    ...unended,
    parent,
    child,
    name: job.name,
    node,
    fan: step,
    end: error === undefined ? 'completed' : 'dead',
    result: result === undefined ? undefined : jsonCodec.encode(result, 'result', bounds.resultBytes),
    failure: error === undefined ? undefined : describeFailure(job.name, error),
  }
}

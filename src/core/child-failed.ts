/**
 * What a job dies of whose child did not complete. Of jobs that died of each other, all name the one that failed by
 * itself, with what it failed of: once, however long the line is.
 */
import { MillraceError } from './errors.js'
import type { Failure, FinalState, RootFailure } from './job.js'
import { clean } from './text.js'

/** A child that has ended. */
interface Ended {
  readonly id: string
  /** The name of its definition. */
  readonly name: string
  readonly state: FinalState
  readonly failure: Failure | undefined
}

/** Its `cause` is a `RootFailure`. */
export function childFailed(
  code: 'CHILD_FAILED' | 'COMPENSATED',
  child: Ended,
  so = wayOut(child),
): MillraceError {
  const { id, name, state, failure } = child
  const root = rootOf(child)
  const how = state === 'dead' ? 'died' : 'was cancelled'
  const of = root.id === id ? '' : ` of ${root.id} ('${root.name}')`
  const why = failure === undefined ? '' : `: ${root.message}`
  const text = `child ${id} ('${name}') ${how}${of}${why}; ${so}`
  return new MillraceError(code, text, { field: 'child', value: id, cause: root })
}

/**
 * Whether a replay can mend a job that died of this. It cannot where the job died of another, had its children undone,
 * or was never built as a whole: it would die of the same again.
 */
export function isMendable(failure: Failure | undefined): boolean {
  if (failure?.root !== undefined) return false
  return failure?.code !== 'COMPENSATED' && failure?.code !== 'FLOW_INCOMPLETE'
}

function wayOut(child: Ended): string {
  const root = rootOf(child)
  return `retry ${root.id === child.id ? 'the child' : root.id}, and this job waits for it again`
}

function rootOf({ id, name, failure }: Ended): RootFailure {
  if (failure?.root === undefined) {
    const cause = failure?.cause ?? `${name} was cancelled`
    return { id, name, message: clean(failure?.message ?? '', most), cause }
  }
  // Nothing below one that undid its children brings it back: it is the one to retry.
  return failure.code === 'COMPENSATED' ? { ...failure.root, id, name } : failure.root
}

/** So that what stands behind it is not cut off where less than all of a failure is kept. */
const most = 400

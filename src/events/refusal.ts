import { isMillraceError } from '../core/errors.js'

/**
 * The server is there and does not take what was written: by a constraint that is checked at the commit, or because a
 * statement had failed and the handler did not heed it. Doing the same again comes to the same.
 */
export function isRefusal(error: unknown): boolean {
  if (!isMillraceError(error)) return codeOf(error) === failedBefore
  return error.code === 'STORE_FAILED' && !ofTheMachine.test(codeOf(error.cause))
}

/** How PostgreSQL answers whatever comes after a statement that failed; a driver's error, as in a handler. */
const failedBefore = '25P02'

/** Its memory, its disk, a defect of its own: another time it may work. */
const ofTheMachine = /^(?:53|58|XX|SQLITE_(?!CONSTRAINT))/

function codeOf(error: unknown): string {
  return `${(error as { readonly code?: unknown } | null | undefined)?.code ?? ''}`
}

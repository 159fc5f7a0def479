import { AssertionError } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'

/**
 * Which error it should be: its code, or text that is in its message; an expression that matches the message; a class; a
 * function that says so; or properties that it has.
 */
export type ErrorMatch =
  | string
  | RegExp
  | (abstract new (
      ...args: never[]
    ) => Error)
  | ((error: unknown) => boolean)
  | Readonly<Record<string, unknown>>

export function matches(error: unknown, match: ErrorMatch | undefined): boolean {
  const { code, message = String(error) } = (error ?? {}) as { code?: unknown; message?: string }
  if (match === undefined) return true
  if (typeof match === 'string') return code === match || message.includes(match)
  if (match instanceof RegExp) return match.test(message)
  if (typeof match === 'function') {
    if (match.prototype instanceof Error || (match as unknown) === Error)
      return error instanceof (match as new () => Error)
    return (match as (error: unknown) => boolean)(error)
  }
  return Object.entries(match).every(([key, value]) =>
    isDeepStrictEqual((error as Record<string, unknown> | undefined)?.[key], value),
  )
}

/** An error that shows both. */
export function difference(what: string, actual: unknown, expected: unknown): AssertionError {
  const { message } = new AssertionError({ actual, expected, operator: 'deepStrictEqual' })
  const shown = message.split('\n').slice(1).join('\n')
  // With an operator, some versions of Node.js add the difference to it once more.
  const error = new AssertionError({ message: `${what}\n${shown}`, actual, expected })
  if (actual instanceof Error) error.cause = actual
  return error
}

export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) throw difference(what, actual, expected)
}

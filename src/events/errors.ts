import { MillraceError } from '../core/errors.js'
import type { Expected } from './log.js'

/** The stream is not as the append expected: another one came first, or it is not there, or is there already. */
export class WrongVersionError extends MillraceError {
  readonly stream: string
  readonly expected: Expected
  /** The stream's version; 0 when there is none of this name. */
  readonly actual: number

  constructor(stream: string, expected: Expected, actual: number) {
    super(
      'WRONG_VERSION',
      `stream '${stream}' has version ${actual}, expected was ${said(expected)}; load it again and decide anew`,
      { field: 'expected', value: expected, limit: actual },
    )
    this.name = 'WrongVersionError'
    this.stream = stream
    this.expected = expected
    this.actual = actual
  }
}

function said(expected: Expected): string {
  if (expected === 'none') return 'no such stream'
  return expected === 'exists' ? 'that it is there' : `${expected}`
}

export function eventsMissing(stream: string, from: number, to: number): MillraceError {
  return new MillraceError(
    'EVENTS_MISSING',
    `events ${from} to ${to} of stream '${stream}' were removed and no snapshot covers them, so its state is unknown; keep snapshots of what loses old events, or 'compact' its category if the latest event says all`,
    { field: 'stream', value: stream },
  )
}

export function unknownType(type: string, stream: string): MillraceError {
  return new MillraceError(
    'EVENT_UNKNOWN',
    `stream '${stream}' has an event of type '${type}', which this store does not know; give its definition to the store, or deploy the code that has it`,
    { field: 'type', value: type },
  )
}

export function tooNew(type: string, version: number, known: number): MillraceError {
  return new MillraceError(
    'EVENT_UNKNOWN',
    `an event of type '${type}' has version ${version} of its data, and this process knows up to ${known}; deploy the code that has it`,
    { field: 'version', value: version, limit: known },
  )
}

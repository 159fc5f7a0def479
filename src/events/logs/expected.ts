import { MillraceError } from '../../core/errors.js'
import type { Append } from '../log.js'

/** Whether a stream at this version, 0 when it is not there, is as the append wants it. */
export function isExpected({ expected }: Pick<Append, 'expected'>, version: number): boolean {
  if (expected === 'any') return true
  if (expected === 'exists') return version > 0
  return version === (expected === 'none' ? 0 : expected)
}

export function takenId(id: string): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `there is an event with the id '${id}' already, and not of this append; an id stands for one append to one stream`,
    { field: 'id', value: id },
  )
}

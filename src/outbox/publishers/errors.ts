/** What brokers say, in sentences that help. None shows anything of a URL but its host and port. */
import { type ErrorDetails, isMillraceError, MillraceError, show } from '../../core/errors.js'
import type { Message } from '../message.js'
import type { PublishResult } from '../publisher.js'

/** The message is at fault, and `why` says how, with the way out. */
export function refused(message: Message, why: string, details: ErrorDetails = {}): PublishResult {
  const text = `message ${show(message.id)} for ${show(message.topic)} was refused: ${why}`
  return { status: 'refused', error: new MillraceError('PUBLISH_REFUSED', text, details) }
}

/** `limit` in bytes, where the broker says it. */
export function tooLarge(message: Message, way: string, limit?: number, cause?: unknown): PublishResult {
  const most = limit === undefined ? '' : ` than ${limit} bytes`
  const text = `message ${show(message.id)} for ${show(message.topic)} is larger${most}; ${way}`
  return { status: 'refused', error: new MillraceError('PAYLOAD_TOO_LARGE', text, { limit, cause }) }
}

/** The broker is at fault. */
export function failed(broker: string, why: string, cause?: unknown): PublishResult {
  return { status: 'failed', error: new MillraceError('PUBLISH_FAILED', `${broker}: ${why}`, { cause }) }
}

/** The broker cannot be reached, or the connection was lost: nothing is known of what was open. */
export function unavailable(broker: string, where: string, cause: unknown): MillraceError {
  if (isMillraceError(cause)) return cause
  return new MillraceError(
    'BROKER_UNAVAILABLE',
    `${broker} at ${where} cannot be used now: ${words(cause)}; check that it is up, its address, user and password. ` +
      'What was under way may or may not have arrived',
    { cause },
  )
}

export function closed(broker: string): MillraceError {
  return new MillraceError('CLOSED', `the publisher of ${broker} is closed; open() opens it again`)
}

export function driverMissing(broker: string, install: string, cause: unknown): MillraceError {
  return new MillraceError(
    'DRIVER_MISSING',
    `the publisher of ${broker} needs its driver: npm install ${install}`,
    {
      cause,
    },
  )
}

export function words(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(words).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}

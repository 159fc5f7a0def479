import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import { failed, refused, tooLarge, words } from '../errors.js'

/** The connection is gone: nothing is known of the message. */
export function isLost(error: unknown): boolean {
  const { name, message } = error as Error
  if (name === 'ClosedConnectionError' || name === 'DrainingConnectionError') return true
  return name === 'RequestError' && (message === 'connection closed' || message === 'connection disconnected')
}

export function isTimeout(error: unknown): boolean {
  return (error as Error).name === 'TimeoutError'
}

/**
 * Who is at fault. `streamOf` rejects where no stream takes the subject: without an answer that is not certain, because a
 * stream that has lost its leader does not answer either.
 */
export async function verdict(
  message: Message,
  error: unknown,
  streamOf: (subject: string) => Promise<string>,
): Promise<PublishResult> {
  const own = ownFault(message, error)
  if (own !== undefined) return own
  try {
    const stream = await streamOf(message.topic)
    return failed('NATS', `stream '${stream}' did not take the message: ${words(error)}`, error)
  } catch (reason) {
    if (named(reason, 'StreamNotFoundError') || named(reason, 'PermissionViolationError'))
      return refused(message, 'no stream takes this subject; add a stream for it, or its subject to one', {
        cause: error,
      })
    if (named(reason, 'JetStreamNotEnabled'))
      return failed(
        'NATS',
        'JetStream does not answer; is it switched on for this server and account?',
        reason,
      )
    return failed('NATS', `no stream answers for subject '${message.topic}': ${words(error)}`, error)
  }
}

/** What the message is to blame for; undefined when that is not certain. */
function ownFault(message: Message, error: unknown): PublishResult | undefined {
  if (named(error, 'InvalidArgumentError') || named(error, 'InvalidSubjectError'))
    return refused(message, words(error), { cause: error })
  if (named(error, 'PermissionViolationError'))
    return refused(message, 'this user may not publish to its subject', { cause: error })
  if (!named(error, 'JetStreamApiError')) return undefined
  const { code, status } = error as { code?: unknown; status?: unknown }
  if (code === exceedsMaximum)
    return tooLarge(message, 'make it smaller, or raise max_msg_size of the stream', undefined, error)
  if (status === badRequest) return refused(message, `NATS says: ${words(error)}`, { cause: error })
  return failed('NATS', words(error), error)
}

/** Of JetStream: the message is larger than its stream allows. */
const exceedsMaximum = 10_054
const badRequest = 400

function named(error: unknown, name: string): boolean {
  for (let e = error; e instanceof Error; e = e.cause) if (e.name === name) return true
  return false
}

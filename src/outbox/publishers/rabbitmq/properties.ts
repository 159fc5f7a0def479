import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import { refused, tooLarge } from '../errors.js'

/** What goes with the body. */
export function propertiesOf(message: Message, persistent: boolean, mandatory: boolean): object {
  return {
    messageId: message.id,
    contentType: 'application/json',
    contentEncoding: 'utf-8',
    deliveryMode: persistent ? 2 : 1,
    timestamp: Math.floor(message.at / 1000), // AMQP has seconds
    headers: message.headers,
    mandatory,
  }
}

/** Why the broker would take it for a broken client, and close the channel or the connection; undefined when it would not. */
export function problemOf(message: Message, frameMax: number): PublishResult | undefined {
  if (Buffer.byteLength(message.topic) > longestName)
    return refused(message, `its topic is longer than the ${longestName} bytes of a routing key`)
  if (Buffer.byteLength(message.id) > longestName)
    return refused(message, `its id is longer than the ${longestName} bytes of a message id`)
  for (const name of Object.keys(message.headers)) {
    if (name === 'CC' || name === 'BCC')
      return refused(message, `a header is called '${name}', which RabbitMQ takes for more routing keys`)
    if (Buffer.byteLength(name) > longestName)
      return refused(message, `the name of a header is longer than ${longestName} bytes`)
  }
  const most = Math.min(frameMax, largestTable) - besideHeaders
  if (headerBytes(message) > most) return tooLarge(message, 'use fewer or shorter headers', most)
  return undefined
}

const longestName = 255
/** That the driver can write. */
const largestTable = 64 * 1024
/** The other properties and what frames them. */
const besideHeaders = 1_024

function headerBytes(message: Message): number {
  return Object.entries(message.headers).reduce(
    (bytes, [name, value]) => bytes + 6 + Buffer.byteLength(name) + Buffer.byteLength(value),
    0,
  )
}

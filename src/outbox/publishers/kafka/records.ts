/** How messages become records, and which of them go together. */
import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import { refused, tooLarge } from '../errors.js'
import type { KafkaBatch, KafkaMessage } from './driver.js'

export function batchOf(messages: readonly Message[], timeout: number): KafkaBatch {
  const byTopic = new Map<string, KafkaMessage[]>()
  for (const message of messages) {
    const records = byTopic.get(message.topic) ?? []
    records.push(recordOf(message))
    byTopic.set(message.topic, records)
  }
  return {
    acks: -1,
    timeout,
    topicMessages: [...byTopic].map(([topic, own]) => ({ topic, messages: own })),
  }
}

function recordOf(message: Message): KafkaMessage {
  return {
    key: message.key ?? null,
    value: message.body,
    headers: { ...message.headers, id: message.id },
    timestamp: String(message.at),
  }
}

export function problemOf(message: Message, maxBytes: number): PublishResult | undefined {
  if (!/^[A-Za-z0-9._-]{1,249}$/.test(message.topic) || /^\.{1,2}$/.test(message.topic))
    return refused(message, "its topic is no topic of Kafka: 1 to 249 letters, digits, '.', '_' or '-'")
  if (sizeOf(message) > maxBytes)
    return tooLarge(
      message,
      'make it smaller, or raise max.message.bytes of the topic and maxBytes',
      maxBytes,
    )
  return undefined
}

/** In their order, so many together that a broker takes them as one batch. */
export function* parcels(messages: readonly Message[], maxBytes: number): Generator<number[]> {
  let parcel: number[] = []
  let bytes = 0
  for (const [i, message] of messages.entries()) {
    const size = sizeOf(message)
    if (parcel.length > 0 && bytes + size > maxBytes) {
      yield parcel
      parcel = []
      bytes = 0
    }
    parcel.push(i)
    bytes += size
  }
  if (parcel.length > 0) yield parcel
}

/** A little more than the record will have. */
function sizeOf({ id, key, body, headers }: Message): number {
  const texts = [id, key ?? '', body, ...Object.entries(headers).flat()]
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text) + 5, 64)
}

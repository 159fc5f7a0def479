/** What Kafka says of a message, or of its topic, that another attempt would hear again. */

/** The name that the protocol gives an error, such as 'MESSAGE_TOO_LARGE'; the client wraps it. */
export function faultOf(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const { type } = e as { type?: unknown }
    if (typeof type === 'string' && faults.has(type)) return type
  }
  return undefined
}

export function isOfTopic(fault: string): boolean {
  return topicFaults.includes(fault)
}

export function wayOut(fault: string): string {
  return ways[fault] ?? 'see what the broker has logged'
}

const topicFaults = ['UNKNOWN_TOPIC_OR_PARTITION', 'INVALID_TOPIC_EXCEPTION', 'TOPIC_AUTHORIZATION_FAILED']

const faults = new Set([
  ...topicFaults,
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_RECORD',
  'INVALID_TIMESTAMP',
  'POLICY_VIOLATION',
])

const ways: Readonly<Record<string, string>> = {
  UNKNOWN_TOPIC_OR_PARTITION: 'make the topic, or set createTopics: true where the brokers allow it',
  TOPIC_AUTHORIZATION_FAILED: 'let this user write to the topic',
  MESSAGE_TOO_LARGE: 'make it smaller, or raise max.message.bytes of the topic',
  RECORD_LIST_TOO_LARGE: 'make it smaller, or raise max.message.bytes of the topic',
}

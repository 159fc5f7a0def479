import type { KafkaBatch, KafkaClient } from '../../src/outbox/publishers/kafka.js'

type Answer = (batch: KafkaBatch) => unknown

/** No broker and no protocol: writes down what a client of Kafka is asked for, and answers what a test says. */
export class RecordingKafka implements KafkaClient {
  readonly producers: object[] = []
  readonly batches: KafkaBatch[] = []
  connected = 0
  #answer: Answer = () => []

  /** What becomes of the batches from now on. */
  answers(answer: Answer): void {
    this.#answer = answer
  }

  producer(options: object) {
    this.producers.push(options)
    return {
      connect: async () => void this.connected++,
      disconnect: async () => void this.connected--,
      sendBatch: async (batch: KafkaBatch) => {
        this.batches.push(batch)
        return this.#answer(batch)
      },
    }
  }

  /** The bodies of each batch, by topic. */
  get sent(): Record<string, string[]>[] {
    return this.batches.map(({ topicMessages }) =>
      Object.fromEntries(
        topicMessages.map(({ topic, messages }) => [topic, messages.map(({ value }) => value)]),
      ),
    )
  }
}

/** As the client of Kafka throws what a broker says, after it has tried again or not. */
export function said(type: string): Error {
  const cause = Object.assign(new Error(`the broker says ${type}`), { type, name: 'KafkaJSProtocolError' })
  return Object.assign(new Error(cause.message, { cause }), { name: 'KafkaJSNonRetriableError' })
}

/** As much of `kafkajs` as the publisher uses, in types of our own: others need neither it nor its types. */
import { driverMissing } from '../errors.js'

/** A `Kafka` of `kafkajs`, or of a client that is like it. */
export interface KafkaClient {
  producer(options: object): KafkaProducer
}

export interface KafkaProducer {
  connect(): Promise<void>
  disconnect(): Promise<void>
  sendBatch(batch: KafkaBatch): Promise<unknown>
}

export interface KafkaBatch {
  /** -1: all replicas that are in sync. */
  readonly acks: number
  readonly timeout: number
  readonly topicMessages: { readonly topic: string; readonly messages: KafkaMessage[] }[]
}

export interface KafkaMessage {
  readonly key: string | null
  readonly value: string
  readonly headers: Record<string, string>
  /** Epoch milliseconds. */
  readonly timestamp: string
}

export interface KafkaDriver {
  client(options: object): KafkaClient
  /** Keys go to the partitions to which the Java client sends them. */
  readonly partitioner: unknown
}

export async function loadDriver(): Promise<KafkaDriver> {
  try {
    const { Kafka, Partitioners, logLevel } = (await import('kafkajs')).default
    return {
      client: (options) => new Kafka({ logLevel: logLevel.NOTHING, ...options } as never),
      partitioner: Partitioners.DefaultPartitioner,
    }
  } catch (error) {
    throw driverMissing('Kafka', 'kafkajs', error)
  }
}

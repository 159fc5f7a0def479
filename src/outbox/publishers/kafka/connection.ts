import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import type { Connection } from '../broker.js'
import { refused, unavailable } from '../errors.js'
import { Results } from '../results.js'
import { type KafkaClient, type KafkaProducer, loadDriver } from './driver.js'
import { faultOf, isOfTopic, wayOut } from './faults.js'
import { batchOf, parcels, problemOf } from './records.js'

export interface KafkaSettings {
  readonly where: string
  /** The caller's own client, or what ours is made of. */
  readonly kafka: KafkaClient | undefined
  readonly client: object
  readonly createTopics: boolean
  readonly maxBytes: number
  readonly ackTimeout: number
}

export async function connectKafka(settings: KafkaSettings): Promise<Connection> {
  const connection = new KafkaConnection(await makeProducer(settings), settings)
  await connection.open()
  return connection
}

async function makeProducer({ kafka, client, createTopics }: KafkaSettings): Promise<KafkaProducer> {
  const options = {
    // A retry of the client's own that the brokers have had already is dropped by them.
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: createTopics,
    // The client's own default for such a producer is never to give up; the relay does not either, and can be ended.
    retry: { initialRetryTime: 100, retries: 3 },
  }
  if (kafka !== undefined) return kafka.producer(options)
  const driver = await loadDriver()
  return driver.client(client).producer({ ...options, createPartitioner: driver.partitioner })
}

class KafkaConnection implements Connection {
  readonly #producer: KafkaProducer
  readonly #settings: KafkaSettings
  #alive = true

  constructor(producer: KafkaProducer, settings: KafkaSettings) {
    this.#producer = producer
    this.#settings = settings
  }

  get alive(): boolean {
    return this.#alive
  }

  async open(): Promise<void> {
    try {
      await this.#producer.connect()
    } catch (error) {
      this.sever()
      throw error
    }
  }

  async publish(messages: readonly Message[]): Promise<PublishResult[]> {
    const results = new Results(messages)
    try {
      for (const parcel of parcels(messages, this.#settings.maxBytes)) {
        const sound = parcel.filter((i) => this.#isSound(messages, i, results))
        await this.#send(messages, sound, results)
      }
      return results.all()
    } catch (error) {
      // Nobody knows what its numbers are now: the next producer begins new ones.
      this.sever()
      return results.all({ error: unavailable('Kafka', this.#settings.where, error) })
    }
  }

  async close(): Promise<void> {
    await this.#producer.disconnect()
  }

  sever(): void {
    this.#alive = false
    void this.#producer.disconnect().catch(() => {})
  }

  #isSound(messages: readonly Message[], index: number, results: Results): boolean {
    if (results.isHeldBack(index)) return false
    const problem = problemOf(messages[index] as Message, this.#settings.maxBytes)
    if (problem !== undefined) results.set(index, problem)
    return problem === undefined
  }

  /** Kafka takes a batch or does not, and does not say which message it is that it refuses: smaller ones tell. */
  async #send(messages: readonly Message[], indexes: readonly number[], results: Results): Promise<void> {
    const part = indexes.filter((i) => !results.isHeldBack(i))
    if (part.length === 0) return
    const own = part.map((i) => messages[i] as Message)
    try {
      await this.#producer.sendBatch(batchOf(own, this.#settings.ackTimeout))
      for (const i of part) results.set(i, 'published')
    } catch (error) {
      const fault = faultOf(error)
      if (fault === undefined) throw error
      const smaller = divide(part, own, fault)
      if (smaller.length > 1) for (const some of smaller) await this.#send(messages, some, results)
      else for (const i of part) results.set(i, refusal(messages[i] as Message, fault, error))
    }
  }
}

/** By topic; then in halves, unless it is all of the topic that is refused. */
function divide(part: readonly number[], messages: readonly Message[], fault: string): number[][] {
  const byTopic = new Map<string, number[]>()
  for (const [place, { topic }] of messages.entries())
    byTopic.set(topic, [...(byTopic.get(topic) ?? []), part[place] as number])
  if (byTopic.size > 1) return [...byTopic.values()]
  if (isOfTopic(fault) || part.length === 1) return [[...part]]
  const half = Math.ceil(part.length / 2)
  return [part.slice(0, half), part.slice(half)]
}

function refusal(message: Message, fault: string, cause: unknown): PublishResult {
  return refused(message, `Kafka says ${fault}; ${wayOut(fault)}`, { cause })
}

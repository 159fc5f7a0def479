import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import { within } from '../bounded.js'
import type { Connection } from '../broker.js'
import { refused, tooLarge, unavailable } from '../errors.js'
import { inKeyOrder } from '../in-key-order.js'
import {
  type JetStream,
  loadDriver,
  type NatsConnection,
  type NatsDriver,
  type NatsHeaders,
} from './driver.js'
import { isLost, isTimeout, verdict } from './verdict.js'

export interface NatsSettings {
  readonly where: string
  readonly inFlight: number
  readonly ackTimeout: number
  /** Of the driver. */
  readonly connection: object
}

export async function connectNats(settings: NatsSettings): Promise<Connection> {
  const driver = await loadDriver()
  return new NatsPublishing(driver, await driver.connect(settings.connection), settings)
}

class NatsPublishing implements Connection {
  readonly #driver: NatsDriver
  readonly #connection: NatsConnection
  readonly #jetstream: JetStream
  readonly #settings: NatsSettings
  #alive = true
  #lostBy: unknown
  #asking: Promise<boolean> | undefined

  constructor(driver: NatsDriver, connection: NatsConnection, settings: NatsSettings) {
    this.#driver = driver
    this.#connection = connection
    this.#jetstream = driver.jetstream(connection)
    this.#settings = settings
    void connection.closed().then((error) => {
      this.#alive = false
      this.#lostBy = error ?? undefined
    })
  }

  get alive(): boolean {
    return this.#alive && !this.#connection.isClosed()
  }

  publish(messages: readonly Message[]): Promise<PublishResult[]> {
    const asked = new Map<string, Promise<string>>()
    const streamOf = (subject: string) => {
      const stream = asked.get(subject) ?? this.#streamOf(subject)
      asked.set(subject, stream)
      return stream
    }
    return inKeyOrder(messages, this.#settings.inFlight, (message) => this.#publish(message, streamOf))
  }

  async close(): Promise<void> {
    await this.#connection.drain()
  }

  sever(): void {
    this.#alive = false
    void this.#connection.close().catch(() => {})
  }

  async #publish(message: Message, streamOf: (subject: string) => Promise<string>): Promise<PublishResult> {
    const problem = this.#problemOf(message)
    if (problem !== undefined) return problem
    try {
      const options = {
        msgID: message.id,
        headers: this.#headers(message),
        timeout: this.#settings.ackTimeout,
      }
      await this.#jetstream.publish(message.topic, message.body, options)
      return 'published'
    } catch (error) {
      if (isLost(error) || !(await this.#isHeard(error)))
        throw unavailable('NATS', this.#settings.where, this.#lostBy ?? error)
      return verdict(message, error, streamOf)
    }
  }

  /** Whether it is the stream that says nothing, rather than the server. */
  async #isHeard(error: unknown): Promise<boolean> {
    if (!isTimeout(error)) return this.alive
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined
    })
    if (!(await this.#asking)) this.sever()
    return this.alive
  }

  #ask(): Promise<boolean> {
    const late = () => new Error('no answer')
    return within(this.#settings.ackTimeout, this.#connection.flush(), late).then(
      () => true,
      () => false,
    )
  }

  /** What the driver does not find out, or does not say in bytes. */
  #problemOf(message: Message): PublishResult | undefined {
    if (!/^[^\s.*>]+(\.[^\s.*>]+)*$/.test(message.topic))
      return refused(message, "its topic is no subject: words between dots, without spaces, '*' or '>'")
    const most = this.#connection.info?.max_payload
    if (most !== undefined && sizeOf(message) > most)
      return tooLarge(message, 'make it smaller, or raise max_payload of the server', most)
    return undefined
  }

  #headers(message: Message): NatsHeaders {
    const headers = this.#driver.headers()
    for (const [name, value] of Object.entries(message.headers)) headers.set(name, value)
    return headers
  }

  async #streamOf(subject: string): Promise<string> {
    const manager = await this.#driver.jetstreamManager(this.#connection, this.#settings.ackTimeout)
    return manager.streams.find(subject)
  }
}

/** With its headers, which count too. */
function sizeOf(message: Message): number {
  const headers = Object.entries({ 'Nats-Msg-Id': message.id, ...message.headers })
  const lines = headers.reduce(
    (bytes, [name, value]) => bytes + Buffer.byteLength(`${name}: ${value}\r\n`),
    0,
  )
  return 'NATS/1.0\r\n\r\n'.length + lines + Buffer.byteLength(message.body)
}

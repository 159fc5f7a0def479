import type { Message } from '../message.js'
import type { Publisher, PublishResult } from '../publisher.js'
import { unlessAborted, within } from './bounded.js'
import { closed, unavailable } from './errors.js'

export interface Broker {
  /** Of the publisher: 'rabbitmq'. */
  readonly name: string
  /** As people write it: 'RabbitMQ'. */
  readonly title: string
  /** Host and port, and nothing else of the URL. */
  readonly where: string
  /** Milliseconds for all of `connect`. */
  readonly connectTimeout: number
  connect(): Promise<Connection>
}

/** One connection, from its beginning to its end: a lost one is replaced by a new one. */
export interface Connection {
  /** False once it is of no use any more. */
  readonly alive: boolean
  /** As `Publisher.publish` has it; all that is open rejects when the connection is lost. */
  publish(messages: readonly Message[]): Promise<readonly PublishResult[]>
  /** Ends it with a goodbye. */
  close(): Promise<void>
  /** Ends it without one. */
  sever(): void
}

/** A publisher that has one connection at the most: made when it is needed, and again when it was lost. */
export class BrokerPublisher implements Publisher {
  readonly name: string
  readonly #broker: Broker
  #connection: Connection | undefined
  #connecting: Promise<Connection> | undefined
  #closed = false

  constructor(broker: Broker) {
    this.name = broker.name
    this.#broker = broker
  }

  async open(): Promise<void> {
    this.#closed = false
    await this.#connected()
  }

  async publish(messages: readonly Message[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    signal.throwIfAborted()
    if (this.#closed) throw closed(this.#broker.title)
    const connection = await unlessAborted(signal, this.#connected())
    try {
      return await unlessAborted(signal, connection.publish(messages))
    } catch (error) {
      // Else what a slow broker has not taken yet would pile up, batch after batch.
      if (signal.aborted) connection.sever()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    // One that comes later is severed.
    if (this.#connecting !== undefined) await inTime(this.#connecting).catch(() => {})
    const connection = this.#connection
    this.#connection = undefined
    if (connection?.alive === true) await inTime(connection.close()).catch(() => connection.sever())
  }

  #connected(): Promise<Connection> {
    if (this.#connection?.alive === true) return Promise.resolve(this.#connection)
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #connect(): Promise<Connection> {
    const { title, where, connectTimeout } = this.#broker
    const attempt = this.#broker.connect()
    try {
      const late = () => new Error(`no answer within ${connectTimeout} ms`)
      const connection = await within(connectTimeout, attempt, late)
      if (this.#closed) throw closed(title)
      this.#connection = connection
      return connection
    } catch (error) {
      attempt.then(
        (connection) => connection.sever(),
        () => {},
      )
      throw unavailable(title, where, error)
    }
  }
}

function inTime<T>(goodbye: Promise<T>): Promise<T> {
  return within(goodbyeMs, goodbye, () => new Error('no goodbye'))
}

const goodbyeMs = 3_000

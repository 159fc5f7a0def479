import { MillraceError } from '../../../core/errors.js'
import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import type { Connection } from '../broker.js'
import { refused, unavailable } from '../errors.js'
import { inKeyOrder } from '../in-key-order.js'
import { Channel, ChannelLost } from './channel.js'
import { type AmqpConnection, frameMax, loadDriver, sever } from './driver.js'
import { problemOf, propertiesOf } from './properties.js'

export interface RabbitSettings {
  readonly url: string
  readonly where: string
  readonly exchange: string
  readonly persistent: boolean
  readonly mandatory: boolean
  readonly inFlight: number
  readonly socket: object
}

export async function connectRabbit(settings: RabbitSettings): Promise<Connection> {
  const driver = await loadDriver()
  const connection = new RabbitConnection(await driver.connect(settings.url, settings.socket), settings)
  try {
    await connection.open()
    return connection
  } catch (error) {
    connection.sever()
    throw error
  }
}

class RabbitConnection implements Connection {
  readonly #connection: AmqpConnection
  readonly #settings: RabbitSettings
  /** The one that all messages take, but for those of `#alone`. */
  #channel: Channel | undefined
  #opening: Promise<Channel> | undefined
  #lone: Promise<unknown> = Promise.resolve()
  #alive = true
  #lostBy: Error | undefined

  constructor(connection: AmqpConnection, settings: RabbitSettings) {
    this.#connection = connection
    this.#settings = settings
    connection.on('error', (error) => {
      this.#alive = false
      this.#lostBy = error
    })
    connection.on('close', (error) => {
      this.#alive = false
      this.#lostBy ??= error
      // The driver leaves a socket whose other end says nothing open.
      setTimeout(() => sever(connection), lingerMs).unref()
    })
  }

  get alive(): boolean {
    return this.#alive
  }

  async open(): Promise<void> {
    await this.#main()
  }

  publish(messages: readonly Message[]): Promise<PublishResult[]> {
    return inKeyOrder(messages, this.#settings.inFlight, (message) => this.#publish(message))
  }

  async close(): Promise<void> {
    await this.#connection.close()
  }

  sever(): void {
    this.#alive = false
    sever(this.#connection)
  }

  async #publish(message: Message): Promise<PublishResult> {
    const problem = problemOf(message, frameMax(this.#connection))
    if (problem !== undefined) return problem
    try {
      return await this.#send(message, await this.#main())
    } catch (error) {
      if (!isAboutMessage(error)) throw this.#lost(error)
      return this.#alone(message)
    }
  }

  /**
   * The server closes a channel because of one message, and does not say which of those that are open on it: each of them
   * gets a channel of its own, one after the other, so that the next time it does.
   */
  #alone(message: Message): Promise<PublishResult> {
    const turn = this.#lone.then(async () => {
      const channel = await this.#openChannel()
      try {
        return await this.#send(message, channel)
      } catch (error) {
        if (!isAboutMessage(error)) throw this.#lost(error)
        return refused(message, `RabbitMQ says: ${error.message}`, { cause: error.cause })
      } finally {
        await channel.close().catch(() => {})
      }
    })
    this.#lone = turn.catch(() => {})
    return turn
  }

  #send(message: Message, channel: Channel): Promise<PublishResult> {
    const { persistent, mandatory } = this.#settings
    return channel.send(message, propertiesOf(message, persistent, mandatory))
  }

  #main(): Promise<Channel> {
    if (this.#channel?.alive === true) return Promise.resolve(this.#channel)
    this.#opening ??= this.#openMain().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #openMain(): Promise<Channel> {
    this.#channel = await this.#openChannel()
    return this.#channel
  }

  async #openChannel(): Promise<Channel> {
    try {
      return new Channel(await this.#connection.createConfirmChannel(), this.#settings.exchange)
    } catch (error) {
      throw this.#lost(error)
    }
  }

  #lost(error: unknown): MillraceError {
    const { exchange, where } = this.#settings
    if (error instanceof ChannelLost && error.code === notFound)
      return new MillraceError(
        'PUBLISH_REFUSED',
        `RabbitMQ at ${where} has no exchange '${exchange}'; declare it, or name another one`,
        { field: 'exchange', value: exchange, cause: error.cause },
      )
    if (error instanceof ChannelLost && error.code === accessRefused)
      return new MillraceError(
        'PUBLISH_REFUSED',
        `RabbitMQ at ${where} does not let this user write to exchange '${exchange}'; grant it, or use another user`,
        { field: 'exchange', value: exchange, cause: error.cause },
      )
    return unavailable('RabbitMQ', where, this.#lostBy ?? (error as Error).cause ?? error)
  }
}

const lingerMs = 1_000

/** Reply codes of AMQP 0-9-1. */
const accessRefused = 403
const notFound = 404
const preconditionFailed = 406

/** Such as one that is too large, or whose topic this user may not write to: others go on. */
function isAboutMessage(error: unknown): error is ChannelLost {
  if (!(error instanceof ChannelLost)) return false
  return (
    error.code === preconditionFailed || (error.code === accessRefused && /\btopic\b/.test(error.message))
  )
}

import type { Message } from '../../message.js'
import type { PublishResult } from '../../publisher.js'
import { failed, refused, words } from '../errors.js'
import type { AmqpChannel, ChannelError } from './driver.js'

/** The channel or its connection is gone: nothing is known of the message. */
export class ChannelLost extends Error {
  override readonly name = 'ChannelLost'
  /** What the server said when it closed the channel; undefined when it did not. */
  readonly code: number | undefined

  constructor(cause: unknown) {
    super(words(cause), { cause })
    const { code } = (cause ?? {}) as ChannelError
    this.code = typeof code === 'number' ? code : undefined
  }
}

/** A channel with confirms: a message has been taken when the server has confirmed it and not returned it before. */
export class Channel {
  readonly #channel: AmqpChannel
  readonly #exchange: string
  /** Ids of messages that lead nowhere and are not confirmed yet. */
  readonly #returned = new Set<unknown>()
  /** What rejects the messages that are not confirmed yet. */
  readonly #open = new Set<(error: unknown) => void>()
  #closedBy: Error | undefined
  #alive = true
  /** Until the socket has taken what was written. */
  #full: { readonly over: Promise<void>; readonly end: () => void } | undefined

  constructor(channel: AmqpChannel, exchange: string) {
    this.#channel = channel
    this.#exchange = exchange
    channel.on('error', (error) => {
      this.#closedBy = error
    })
    channel.on('close', () => {
      this.#alive = false
      this.#drained()
      // Some versions of the driver forget to tell those that come after one that was confirmed early.
      for (const lost of this.#open) lost(new Error('the channel was closed'))
    })
    channel.on('drain', () => this.#drained())
    channel.on('return', ({ properties }) => this.#returned.add(properties.messageId))
  }

  get alive(): boolean {
    return this.#alive && this.#closedBy === undefined
  }

  /** Rejects with `ChannelLost`. */
  async send(message: Message, properties: object): Promise<PublishResult> {
    while (this.#full !== undefined) await this.#full.over
    if (!this.alive) throw new ChannelLost(this.#closedBy ?? new Error('the channel is closed'))
    return new Promise((resolve, reject) => {
      const lost = (error: unknown) => {
        this.#open.delete(lost)
        reject(new ChannelLost(this.#closedBy ?? error))
      }
      const confirmed = (error: unknown) => {
        if (error instanceof Error && error.message !== nacked) return lost(error)
        this.#open.delete(lost)
        resolve(this.#answer(message, error))
      }
      this.#open.add(lost)
      try {
        const body = Buffer.from(message.body)
        if (!this.#channel.publish(this.#exchange, message.topic, body, properties, confirmed)) this.#fill()
      } catch (error) {
        if (!this.alive) return lost(error)
        this.#open.delete(lost)
        resolve(refused(message, words(error), { cause: error }))
      }
    })
  }

  async close(): Promise<void> {
    if (this.alive) await this.#channel.close()
  }

  #answer(message: Message, error: unknown): PublishResult {
    const returned = this.#returned.delete(message.id)
    if (error !== null && error !== undefined)
      return failed('RabbitMQ', 'the server did not take the message; a queue may be full or broken', error)
    if (!returned) return 'published'
    const where =
      this.#exchange === ''
        ? 'no queue has this name'
        : `no queue is bound to exchange '${this.#exchange}' for it`
    return refused(
      message,
      `${where}; declare the queue and its binding, or set mandatory: false to drop such messages`,
    )
  }

  #fill(): void {
    let end = () => {}
    const over = new Promise<void>((resolve) => {
      end = resolve
    })
    this.#full ??= { over, end }
  }

  #drained(): void {
    const full = this.#full
    this.#full = undefined
    full?.end()
  }
}

/** The driver's own word for a message that the server did not take. */
const nacked = 'message nacked'

/** As much of `amqplib` as the publisher uses, in types of our own: others need neither it nor its types. */
import { driverMissing } from '../errors.js'

export interface AmqpDriver {
  connect(url: string, options: object): Promise<AmqpConnection>
}

export interface AmqpConnection {
  createConfirmChannel(): Promise<AmqpChannel>
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'close', listener: (error?: Error) => void): unknown
}

export interface AmqpChannel {
  /** False: nothing more before 'drain'. */
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    properties: object,
    confirmed: (error: unknown) => void,
  ): boolean
  close(): Promise<void>
  on(event: 'error', listener: (error: ChannelError) => void): unknown
  on(event: 'close' | 'drain', listener: () => void): unknown
  on(event: 'return', listener: (message: ReturnedMessage) => void): unknown
}

/** Why the server has closed a channel: 404, 406 and so on. */
export interface ChannelError extends Error {
  readonly code?: number
}

interface ReturnedMessage {
  readonly properties: { readonly messageId?: unknown }
}

export async function loadDriver(): Promise<AmqpDriver> {
  try {
    return (await import('amqplib')).default
  } catch (error) {
    throw driverMissing('RabbitMQ', 'amqplib', error)
  }
}

/** Destroys the socket; the driver hears of it only by an error. */
export function sever(connection: AmqpConnection): void {
  socketOf(connection)?.destroy?.(new Error('the connection was given up'))
}

/** The largest frame that both sides agreed on; a message's headers have to fit into one. */
export function frameMax(connection: AmqpConnection): number {
  const { frameMax } = (connection as { connection?: { frameMax?: unknown } }).connection ?? {}
  return typeof frameMax === 'number' ? frameMax : smallestFrame
}

/** That AMQP 0-9-1 allows. */
const smallestFrame = 4_096

function socketOf(connection: AmqpConnection): { destroy?(error?: Error): void } | undefined {
  return (connection as { connection?: { stream?: { destroy?(error?: Error): void } } }).connection?.stream
}

/** As much of the NATS client as the publisher uses, in types of our own: others need neither it nor its types. */
import { driverMissing } from '../errors.js'

export interface NatsDriver {
  connect(options: object): Promise<NatsConnection>
  headers(): NatsHeaders
  jetstream(connection: NatsConnection): JetStream
  jetstreamManager(connection: NatsConnection, timeout: number): Promise<JetStreamManager>
}

export interface NatsConnection {
  readonly info?: { readonly max_payload: number }
  isClosed(): boolean
  /** Resolves when it is closed, whoever has closed it. */
  closed(): Promise<unknown>
  /** A round trip to the server. */
  flush(): Promise<void>
  drain(): Promise<void>
  close(): Promise<void>
}

export interface NatsHeaders {
  set(name: string, value: string): void
}

export interface JetStream {
  publish(
    subject: string,
    payload: string,
    options: { readonly msgID: string; readonly headers: NatsHeaders; readonly timeout: number },
  ): Promise<unknown>
}

interface JetStreamManager {
  readonly streams: { find(subject: string): Promise<string> }
}

export async function loadDriver(): Promise<NatsDriver> {
  try {
    const [core, jetstream] = await Promise.all([
      import('@nats-io/transport-node'),
      import('@nats-io/jetstream'),
    ])
    return {
      connect: (options) => core.connect(options) as Promise<NatsConnection>,
      headers: () => core.headers(),
      jetstream: (connection) => jetstream.jetstream(connection as never),
      jetstreamManager: (connection, timeout) =>
        // checkAPI would ask for the account, which not every user may.
        jetstream.jetstreamManager(connection as never, { checkAPI: false, timeout }),
    } as NatsDriver
  } catch (error) {
    throw driverMissing('NATS', '@nats-io/transport-node @nats-io/jetstream', error)
  }
}

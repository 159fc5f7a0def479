/** What this process tells others of, and hears of them. Only lowers latency: everything works without. */
import type { Signal } from '../../core/store.js'
import { newToken } from '../../system/ids.js'
import type { Connection } from './connection.js'
import { Listener } from './listener.js'
import { bind } from './literal.js'
import { Notifier } from './notifier.js'
import type { CompiledOptions } from './options.js'
import { channelOf } from './schema.js'

export class WakeUps {
  /** Says who speaks: a process knows already what it has done itself. */
  readonly #sender = newToken()
  readonly #notifier: Notifier
  readonly #listener: Listener | undefined
  readonly #tell: (signal: Signal) => void
  readonly #channel: string

  constructor(
    connection: Connection,
    { schema, listen }: Pick<CompiledOptions, 'schema' | 'listen'>,
    tell: (signal: Signal) => void,
    heartbeat?: number,
  ) {
    const channel = channelOf(schema)
    this.#channel = channel
    this.#tell = tell
    this.#notifier = new Notifier((queues) =>
      connection.query(send, [channel, this.#payloads(queues)], { patience: 0 }),
    )
    if (!listen) return
    this.#listener = new Listener({
      channel,
      makeClient: () => connection.pool.apart(),
      onMessage: (payload) => this.#hear(payload),
      onGap: () => tell({ type: 'changed' }),
      ...(heartbeat !== undefined && { heartbeat }),
    })
  }

  /** Resolves when it listens, if it does: a server that is away is waited for in the background. */
  async start(): Promise<void> {
    await this.#listener?.start()
  }

  /** Whether other processes are heard at this moment. */
  get listening(): boolean {
    return this.#listener?.listening === true
  }

  async stop(): Promise<void> {
    this.#notifier.stop()
    await this.#listener?.stop()
  }

  /** Jobs became ready in these queues; for after the commit. */
  ready(queues: Iterable<string>): void {
    this.#notifier.notify(queues)
  }

  /** The same as a statement, to be sent behind the commit; undefined when they have just been told. */
  word(queues: readonly string[]): string | undefined {
    if (!this.#notifier.isTimeFor(queues)) return undefined
    return bind(send.text, [this.#channel, this.#payloads(queues)])
  }

  /** Something else changed that other processes want to know. */
  changed(): void {
    this.#notifier.notify([noQueue])
  }

  #payloads(queues: readonly string[]): string[] {
    return queues.map((queue) => `${this.#sender} ${queue}`)
  }

  #hear(payload: string): void {
    const [sender, queue = noQueue] = payload.split(' ', 2)
    if (sender === this.#sender) return
    this.#tell(queue === noQueue ? { type: 'changed' } : { type: 'ready', queues: new Set([queue]) })
  }
}

const noQueue = ''

/** Nothing is lost with it, so its commit waits for no disk. */
const send = {
  name: 'millrace_notify',
  text: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) FROM unnest($2::text[]) payload`,
}

import { encodeInput, enqueueOptions, type Maker, newJob } from '../client/new-job.js'
import { placement } from '../client/placement.js'
import { bounds } from '../core/bounds.js'
import {
  type AnyJob,
  checkDefinition,
  type EnqueueOptions,
  type JobDefinition,
  parseInput,
} from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import { compileRetain, invalid, jobId, noUnknown, unshown } from '../core/options.js'
import { spread } from '../core/spread.js'
import { belonging } from '../core/traffic/options.js'
import { newId } from '../system/ids.js'
import { Opening } from '../system/opening.js'
import { address } from './address.js'
import { Aside } from './aside.js'
import {
  type CompiledOutbox,
  type CompiledRelay,
  compileOutbox,
  compileRelay,
  type OutboxOptions,
  type RelayPolicy,
  relayPolicy,
} from './options.js'
import type { Publisher } from './publisher.js'
import { Relay } from './relay.js'
import { type NewRow, type OutboxFigures, type OutboxStore, slots } from './store.js'
import { checkStore, storeOf } from './store-url.js'
import { type JobTarget, jobsTo, messagesTo } from './target.js'

export interface OutboxJobOptions extends Omit<EnqueueOptions, 'signal'> {
  /** Jobs with the same one are handed on in the order in which they were written. @default none */
  readonly order?: string | number | undefined
}

export interface PublishOptions {
  /** Messages with the same key are published in the order in which they were written. @default none */
  readonly key?: string | number | undefined
  /** What consumers tell duplicates by. @default a UUID */
  readonly id?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export interface NewMessage extends PublishOptions {
  readonly topic: string
  readonly payload: unknown
}

export interface RelayOptions extends RelayPolicy {
  /** The Millrace that gets the jobs. */
  readonly to?: JobTarget
  /** What gets the messages. */
  readonly publisher?: Publisher
}

/**
 * Jobs and messages that leave if and only if a transaction of the caller's own database commits. They are written beside
 * the caller's data, in its transaction; a relay hands them on, to a Millrace on any engine or to a broker.
 */
export class Outbox {
  /** What was refused too often. */
  readonly aside: Aside
  readonly #options: CompiledOutbox
  readonly #maker: Maker
  readonly #given: string | OutboxStore
  readonly #opening = new Opening(() => this.#open())
  readonly #relays = new Set<Relay>()
  #store: OutboxStore | undefined

  constructor(options: OutboxOptions) {
    this.#options = compileOutbox(options)
    checkStore(options.store)
    this.#given = options.store
    const { codec, clock, maxPayload } = this.#options
    this.#maker = { codec, clock, limits: { payload: maxPayload, result: bounds.resultBytes } }
    this.aside = new Aside(() => this.#ready())
  }

  /** Makes the tables if they are not there. Before the first write, which comes in a transaction and cannot wait for it. */
  open(): Promise<void> {
    return this.#opening.done()
  }

  /**
   * Writes a job in the caller's transaction; it is added to the Millrace of the relay after the commit, once. On SQLite
   * `tx` is a better-sqlite3 database inside a transaction, and the call throws at once what is wrong; on PostgreSQL a
   * transaction of pg, postgres, Drizzle, Kysely, Knex, Prisma or TypeORM, and the call is awaited before the commit.
   * Gives the job's id.
   */
  enqueue<I, O, R>(
    tx: unknown,
    job: JobDefinition<I, O, R>,
    input: NoInfer<I>,
    options: OutboxJobOptions = {},
  ): Promise<string> {
    return this.#write(tx, job, [input], options).then(([id]) => id as string)
  }

  /** The same of many at a time. */
  enqueueMany<I, O, R>(
    tx: unknown,
    job: JobDefinition<I, O, R>,
    inputs: Iterable<NoInfer<I>>,
    options: Omit<OutboxJobOptions, 'id'> = {},
  ): Promise<string[]> {
    if ((options as OutboxJobOptions).id !== undefined)
      throw invalid('id', (options as OutboxJobOptions).id, 'none: each job has its own')
    return this.#write(tx, job, [...inputs], options)
  }

  /** Writes a message in the caller's transaction; it is published after the commit, at least once. Gives its id. */
  publish(tx: unknown, topic: string, payload: unknown, options: PublishOptions = {}): Promise<string> {
    return this.publishMany(tx, [{ ...options, topic, payload }]).then(([id]) => id as string)
  }

  /** The same of many at a time. */
  publishMany(tx: unknown, messages: Iterable<NewMessage>): Promise<string[]> {
    const rows = Array.from(messages, (message) => this.#messageRow(message))
    return this.#opened()
      .write(rows, tx)
      .then(() => rows.map(({ id }) => id))
  }

  #messageRow({ topic, payload, ...options }: NewMessage): NewRow {
    noUnknown(options, ['key', 'id', 'headers'], 'publish')
    const key = options.key === undefined ? undefined : belonging(options.key, 'key')
    const id = options.id === undefined ? newId(this.#options.clock.now()) : jobId(options.id)
    return {
      kind: 'message',
      id,
      slot: slotOf(key),
      key,
      topic: address(topic, 'topic'),
      body: this.#options.codec.encode(payload, 'payload', this.#options.maxPayload),
      headers: headersText(options.headers),
    }
  }

  /** Hands on what was written; call `start` on it. Any number of processes may have one. */
  relay(options: RelayOptions): Relay {
    noUnknown(options, [...relayPolicy, 'to', 'publisher'], 'relay')
    const { to, publisher, ...policy } = options
    if (to !== undefined && typeof to?.insert !== 'function') throw unshown('to', 'a Millrace')
    if (publisher !== undefined && typeof publisher?.publish !== 'function')
      throw unshown('publisher', 'a publisher, such as rabbitPublisher({ url })')
    const targets = [
      ...(to === undefined ? [] : [jobsTo(to)]),
      ...(publisher === undefined ? [] : [messagesTo(publisher)]),
    ]
    if (targets.length === 0) throw invalid('to', undefined, 'a Millrace as `to`, a `publisher`, or both')
    const compiled = compileRelay(policy)
    this.#refuseReplication(compiled)
    const { keep } = this.#options
    const outbox = this
    const relay = new Relay({
      get store() {
        return outbox.#opened()
      },
      targets,
      options: compiled,
      history: keep.sent > 0,
      ready: () => this.open(),
      prune: () =>
        this.#opened().prune({
          history: keep.sent,
          aside: keep.aside,
          received: undefined,
          limit: bounds.batch,
        }),
      random: Math.random,
    })
    this.#relays.add(relay)
    void relay.stopped.then(() => this.#relays.delete(relay))
    return relay
  }

  /** As soon as it is known what the store can do. */
  #refuseReplication({ source }: CompiledRelay): void {
    if (source === 'replication' && this.#store?.capabilities.replication === false)
      throw invalid('source', source, `'poll': ${this.#store.capabilities.engine} replicates to nobody`)
  }

  /** What waits, for how long the oldest has, and what was set aside; cheap, whatever there is. */
  async stats(): Promise<OutboxFigures> {
    return (await this.#ready()).figures()
  }

  /** Stops its relays and closes the connection; a publisher is the caller's to close. */
  async close(): Promise<void> {
    await Promise.all([...this.#relays].map((relay) => relay.stop()))
    await this.#opening.over()
    const store = this.#store
    this.#store = undefined
    this.#opening.forget()
    await store?.close()
  }

  #write(tx: unknown, job: AnyJob, inputs: readonly unknown[], options: OutboxJobOptions): Promise<string[]> {
    checkDefinition(job)
    const store = this.#opened()
    if (typeof options !== 'object' || options === null) noUnknown(options, [], 'enqueue')
    const { order, ...own } = options
    refuseUnknown(own)
    const key = order === undefined ? undefined : belonging(order, 'order')
    const checks = inputs
      .map((input) => parseInput(job, input))
      .filter((checked) => checked instanceof Promise)
    for (const check of checks) check.catch(() => {}) // whoever waits for it hears of it
    if (checks.length > 0 && store.capabilities.synchronous) throw asynchronous(job)
    const rows = () => inputs.map((input) => this.#rowOf(job, input, own, key))
    const write = (made: readonly NewRow[]) => store.write(made, tx).then(() => made.map(({ id }) => id))
    return checks.length === 0 ? write(rows()) : Promise.all(checks).then(() => write(rows()))
  }

  #rowOf(job: AnyJob, input: unknown, options: EnqueueOptions, key: string | undefined): NewRow {
    const encoded = encodeInput(this.#maker, input)
    const made = newJob(
      this.#maker,
      job,
      encoded,
      placement(job, input, options),
      this.#remembered(job, options),
    )
    // Its id is in the row, and will come again if the relay does.
    const body = JSON.stringify({ ...made, fresh: false })
    return { kind: 'job', id: made.id, slot: slotOf(key), key, topic: undefined, body, headers: undefined }
  }

  /** Its id is known to its store long enough for a relay that has to hand it on once more. */
  #remembered({ policy }: AnyJob, options: EnqueueOptions): EnqueueOptions {
    const retain = options.retain === undefined ? policy.retain : compileRetain(options.retain)
    const { remember } = this.#options
    const longer = { completed: Math.max(retain.completed, remember), dead: Math.max(retain.dead, remember) }
    const isLong = retain.completed >= remember && retain.dead >= remember
    return isLong ? options : { ...options, retain: longer }
  }

  async #open(): Promise<void> {
    const store = await storeOf(this.#given, this.#options.clock)
    await store.open()
    this.#store = store
  }

  async #ready(): Promise<OutboxStore> {
    await this.open()
    return this.#opened()
  }

  #opened(): OutboxStore {
    if (this.#store !== undefined) return this.#store
    throw new MillraceError(
      'CLOSED',
      'the outbox is not open: await outbox.open() before the first transaction',
    )
  }
}

/** A call in a transaction waits for nothing, and the transaction is its first argument. */
function refuseUnknown(options: object): void {
  noUnknown(
    options,
    ['order', ...enqueueOptions.filter((option) => option !== 'signal' && option !== 'tx')],
    'enqueue',
  )
}

/** Rows of one key have one; others are spread. */
function slotOf(key: string | undefined): number {
  return Math.floor((key === undefined ? Math.random() : spread(key)) * slots)
}

function headersText(headers: PublishOptions['headers']): string | undefined {
  if (headers === undefined) return undefined
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    throw invalid('headers', headers, 'an object of texts')
  for (const [name, value] of Object.entries(headers)) {
    address(name, 'headers')
    if (typeof value !== 'string') throw invalid(`headers.${name}`, value, 'a text')
  }
  const text = JSON.stringify(headers)
  if (text.length > bounds.metadataBytes)
    throw invalid(
      'headers',
      headers,
      `no more than ${bounds.metadataBytes} bytes as JSON, not ${text.length}`,
      bounds.metadataBytes,
    )
  return text
}

function asynchronous({ name }: AnyJob): MillraceError {
  return new MillraceError(
    'INVALID_INPUT',
    `job '${name}' has an asynchronous schema, which cannot be used in a transaction of SQLite`,
  )
}

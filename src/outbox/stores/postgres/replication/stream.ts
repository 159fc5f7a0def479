/**
 * Rows as the server commits them, from its write-ahead log. The replication slot is a temporary one: it ends with the
 * connection, so that no relay that is away makes the server keep its log for ever. What is missed meanwhile is in the table.
 */
import type { Change, Plugin, ReplicationClient, ReplicationDriver, ReplicationService } from './driver.js'

export interface StreamOptions {
  readonly driver: ReplicationDriver
  /** How to connect, as pg has it. */
  readonly client: object
  readonly slot: string
  readonly publication: string
  readonly isWanted: (row: StreamedRow) => boolean
}

export interface StreamedRow {
  readonly slot: number
  readonly seq: number
  readonly id: string
  readonly key: string | undefined
  readonly topic: string | undefined
  readonly body: string
  readonly headers: string | undefined
  readonly at: number
  /** Of the commit. */
  readonly lsn: string
  /** Of the transaction: the lower half of its number. */
  readonly xid: number
}

export class Stream {
  readonly #service: ReplicationService
  readonly #options: StreamOptions
  #rows: StreamedRow[] = []
  #text = 0
  /** Handed out, and not settled yet. */
  #out = 0
  /** There is so much that nobody has fetched that the log is held up. */
  #isFull = false
  #transaction = { lsn: '', xid: 0 }
  /** Everything up to here has been handed out and settled. */
  #settled = '0/0'
  /** The last that was heard of. */
  #heard = '0/0'
  #heardAt = performance.now()
  #wake = () => {}
  #drained = () => {}
  #failure: unknown
  #timer: NodeJS.Timeout | undefined

  /** Resolves when the slot is there: from then on no commit is missed. */
  static async start(options: StreamOptions): Promise<Stream> {
    const stream = new Stream(options)
    try {
      await stream.#start()
      return stream
    } catch (error) {
      await stream.close()
      throw error
    }
  }

  private constructor(options: StreamOptions) {
    this.#options = options
    const { LogicalReplicationService } = options.driver
    this.#service = new LogicalReplicationService(options.client, {
      acknowledge: { auto: false, timeoutSeconds: 0 },
      flowControl: { enabled: true },
    })
  }

  /** When the first row that nobody has fetched was written. */
  get oldest(): number {
    return this.#rows[0]?.at ?? Number.POSITIVE_INFINITY
  }

  /** Waits up to `ms` for the first row. Throws when the stream has ended. */
  async next(limit: number, ms: number): Promise<readonly StreamedRow[]> {
    if (this.#rows.length === 0 && this.#failure === undefined) await this.#someOrLate(ms)
    if (this.#failure !== undefined) throw this.#failure
    const rows = this.#rows.splice(0, limit)
    this.#out += rows.length
    this.#text -= rows.reduce((sum, { body }) => sum + body.length, 0)
    if (this.#text <= mostText && this.#rows.length <= mostRows) this.#drained()
    return rows
  }

  /** These, which were handed out, are done. */
  settled(rows: readonly StreamedRow[]): void {
    this.#out -= rows.length
    const last = rows.at(-1)
    // A transaction of which some rows are still here is not done.
    if (last !== undefined && this.#rows[0]?.lsn !== last.lsn) this.#settled = last.lsn
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#fail(new Error('the stream was closed'))
    await this.#service.destroy().catch(() => {})
  }

  async #start(): Promise<void> {
    const { slot, publication, driver } = this.#options
    this.#service.on('data', (lsn, change) => this.#hear(lsn, change))
    this.#service.on('heartbeat', (lsn, _, shouldRespond) => this.#beat(lsn, shouldRespond))
    this.#service.on('error', (error) => this.#fail(error))
    const started = new Promise<void>((resolve) => this.#service.on('start', () => resolve()))
    const subscribed = this.#service.subscribe(temporary(driver, slot, publication), slot)
    const ended = subscribed.then(
      () => this.#fail(new Error('the server ended the replication')),
      (error: unknown) => this.#fail(error),
    )
    await Promise.race([started, ended])
    if (this.#failure !== undefined) throw this.#failure
    this.#timer = setInterval(() => this.#ask(), askMs)
    this.#timer.unref()
  }

  /** Holds the log up while there is much that nobody has fetched. */
  async #hear(lsn: string, change: Change): Promise<void> {
    this.#heardAt = performance.now()
    if (change.tag === 'begin') this.#transaction = { lsn: change.commitLsn, xid: change.xid }
    if (change.tag === 'commit') this.#heard = lsn
    if (change.tag !== 'insert') return
    const row = { ...rowOf(change.new), ...this.#transaction }
    if (!this.#options.isWanted(row)) return
    this.#rows.push(row)
    this.#text += row.body.length
    this.#wake()
    if (this.#text <= mostText && this.#rows.length <= mostRows) return
    this.#isFull = true
    await new Promise<void>((resolve) => {
      this.#drained = resolve
    })
    this.#isFull = false
    this.#heardAt = performance.now()
  }

  #beat(lsn: string, shouldRespond: boolean): void {
    this.#heardAt = performance.now()
    this.#heard = lsn
    if (shouldRespond) this.#acknowledge(false)
  }

  /** A connection that does not answer is dead, whatever the network says. */
  #ask(): void {
    const isSilent = !this.#isFull && performance.now() - this.#heardAt > silentMs
    if (isSilent) this.#fail(new Error('the replication connection is silent'))
    else this.#acknowledge(true)
  }

  #acknowledge(ping: boolean): void {
    // What is not ours needs no settling, and must not keep the server's log either.
    const lsn = this.#rows.length === 0 && this.#out === 0 ? this.#heard : this.#settled
    void this.#service.acknowledge(lsn, ping).catch((error: unknown) => this.#fail(error))
  }

  async #someOrLate(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = () => {}
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#wake()
    this.#drained()
  }
}

const mostRows = 10_000
const mostText = 32 * 1024 * 1024
const askMs = 5_000
const silentMs = 20_000

/** Makes the slot on the connection that reads it, as a temporary one has to be. */
function temporary({ PgoutputPlugin }: ReplicationDriver, slot: string, publication: string): Plugin {
  class Temporary extends PgoutputPlugin {
    override async start(client: ReplicationClient, name: string): Promise<unknown> {
      await client.query(`CREATE_REPLICATION_SLOT "${slot}" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT`)
      return super.start(client, name, '0/0')
    }
  }
  return new Temporary({ protoVersion: 1, publicationNames: [publication] })
}

/** The driver makes dates of times; numbers of eight bytes come as texts. */
function rowOf(values: Readonly<Record<string, unknown>>): Omit<StreamedRow, 'lsn' | 'xid'> {
  const { slot, seq, id, key, topic, body, headers, at } = values
  return {
    slot: Number(slot),
    seq: Number(seq),
    id: String(id),
    key: textOf(key),
    topic: textOf(topic),
    body: String(body),
    headers: textOf(headers),
    at: new Date(at as Date | string).getTime(),
  }
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value)
}

import type { Connection } from '../../databases/postgres/connection.js'
import { kindKey } from '../page/kinds.js'
import { inSchema } from './in-schema.js'

interface Named {
  readonly kind: number
  readonly queue: number
}

export interface KindName {
  readonly queue: string
  readonly name: string
  readonly lane: number
}

/** The numbers of queues and kinds, which never change: asked for once. */
export class Names {
  readonly #connection: Connection
  readonly #schema: string
  readonly #kinds = new Map<string, Named>()
  readonly #byNum = new Map<number, KindName>()
  readonly #queues = new Map<string, number>()
  /** Queues that have limits or groups. One that once had keeps to the desk. */
  readonly limited = new Set<string>()

  constructor(connection: Connection, schema: string) {
    this.#connection = connection
    this.#schema = schema
  }

  async kind(of: KindName): Promise<number> {
    const key = kindKey(of.queue, of.name, of.lane)
    const known = this.#kinds.get(key)
    if (known !== undefined) return known.kind
    const named = await this.#ask<Named>('SELECT kind, queue FROM {schema}.kind_number_{set}($1, $2, $3)', [
      of.queue,
      of.name,
      of.lane,
    ])
    this.#learn(named, of)
    return named.kind
  }

  async ofNum(num: number): Promise<KindName> {
    const known = this.#byNum.get(num)
    if (known !== undefined) return known
    const text =
      'SELECT q.name AS queue, k.name, k.lane FROM {schema}.kind k JOIN {schema}.queue q ON q.num = k.queue WHERE k.num = $1'
    const name = await this.#ask<KindName>(text, [num])
    this.#byNum.set(num, name)
    return name
  }

  /** Made on first use, so that a worker may ask before there is a job. */
  async queue(name: string): Promise<number> {
    const known = this.#queues.get(name)
    if (known !== undefined) return known
    const { num } = await this.#ask<{ num: number }>('SELECT {schema}.queue_number_{set}($1) AS num', [name])
    this.#queues.set(name, num)
    return num
  }

  #learn({ kind, queue }: Named, of: KindName): void {
    this.#kinds.set(kindKey(of.queue, of.name, of.lane), { kind, queue })
    this.#byNum.set(kind, of)
    this.#queues.set(of.queue, queue)
  }

  async #ask<Row>(text: string, values: readonly unknown[]): Promise<Row> {
    const { rows } = await this.#connection.query<Row>({ text: inSchema(text, this.#schema) }, values)
    return rows[0] as Row
  }
}

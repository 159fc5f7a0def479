import { PostgresStore } from 'millrace/postgres'
import type { VirtualClock } from 'millrace/testing'
import { giveBackSchema, type Schema, takeSchema } from './schemas.js'

/** Has a schema of its own until it is closed. */
export class SchemaStore extends PostgresStore {
  readonly #schema: Schema
  #wasOpened = false
  #isGivenBack = false

  constructor(clock?: VirtualClock) {
    const schema = takeSchema()
    // In virtual time nobody else is there, and what is heard comes in real time.
    super({ pool: schema.pool, schema: schema.name, ...(clock !== undefined && { clock, listen: false }) })
    this.#schema = schema
  }

  override open(): Promise<void> {
    this.#wasOpened = true
    return super.open()
  }

  override async close(): Promise<void> {
    await super.close()
    if (this.#isGivenBack) return
    this.#isGivenBack = true
    await giveBackSchema(this.#schema, this.#wasOpened)
  }
}

/** An outbox beside a table of the caller's, on the engine of the project; cleaned up after each test. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { type AnyJob, defineJob, Millrace } from 'millrace'
import { MemoryStore } from 'millrace/memory'
import {
  type Message,
  Outbox,
  type OutboxOptions,
  type OutboxStore,
  type Publisher,
  type PublishResult,
  postgresOutbox,
  type Relay,
  type RelayEvents,
  type RelayOptions,
  sqliteOutbox,
} from 'millrace/outbox'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { freshSchema, serverUrl } from '../postgres/postgres.js'

export const isPostgres = process.env.MILLRACE_TEST_ENGINE === 'postgres'

export interface Ground {
  /** A store on the same data: each call is another process, as far as the outbox can tell. */
  store(): OutboxStore
  /** Commits what `work` wrote, unless it throws. */
  transact<T>(work: (tx: Tx) => T | Promise<T>): Promise<T>
  /** Rows of the caller's own table. */
  orders(): Promise<string[]>
}

/** Of the driver, with what every test needs of it. */
interface Tx {
  readonly tx: unknown
  /** Into the caller's own table. */
  order(id: string): unknown
}

export function ground(): Promise<Ground> {
  return isPostgres ? postgres() : sqlite()
}

async function sqlite(): Promise<Ground> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'app.db')
  const db = new Database(file)
  db.pragma('journal_mode = wal')
  db.exec('CREATE TABLE orders (id TEXT PRIMARY KEY)')
  onTestFinished(() => void db.close())
  const tx = { tx: db, order: (id: string) => db.prepare('INSERT INTO orders VALUES (?)').run(id) }
  return {
    store: () => sqliteOutbox({ file, synchronous: 'normal' }),
    orders: async () => db.prepare<[], string>('SELECT id FROM orders ORDER BY id').pluck().all(),
    async transact(work) {
      db.exec('BEGIN IMMEDIATE')
      try {
        const result = await work(tx)
        db.exec('COMMIT')
        return result
      } catch (error) {
        db.exec('ROLLBACK')
        throw error
      }
    },
  }
}

async function postgres(): Promise<Ground> {
  const schema = freshSchema()
  const pool = new pg.Pool({ connectionString: serverUrl(), max: 12 })
  onTestFinished(() => pool.end())
  await pool.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.orders (id text PRIMARY KEY)`)
  return {
    store: () => postgresOutbox({ url: serverUrl(), schema, poolSize: 6 }),
    orders: async () =>
      (await pool.query(`SELECT id FROM ${schema}.orders ORDER BY id`)).rows.map(({ id }) => id),
    async transact(work) {
      const client = await pool.connect()
      const order = (id: string) => client.query(`INSERT INTO ${schema}.orders VALUES ($1)`, [id])
      try {
        await client.query('BEGIN')
        const result = await work({ tx: client, order })
        await client.query('COMMIT')
        return result
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
  }
}

export async function outboxOn(ground: Ground, options: Partial<OutboxOptions> = {}): Promise<Outbox> {
  const outbox = new Outbox({
    store: ground.store(),
    ...options,
  })
  await outbox.open()
  onTestFinished(() => outbox.close())
  return outbox
}

/** At work, and stopped after the test. Looks by itself only once an hour: signals have to do. */
export async function relayOf(outbox: Outbox, options: RelayOptions): Promise<Relay> {
  const relay = outbox.relay({ handleSignals: false, poll: '1h', ...options })
  relay.on('error', () => {})
  await relay.start()
  onTestFinished(() => relay.stop({ grace: 0 }))
  return relay
}

export const mail = defineJob({
  name: 'send-mail',
  queue: 'mail',
  run: async ({ to }: { to: string }) => `mailed ${to}`,
})

/** On memory, so that nothing of the outbox's engine helps. */
export function millFor(jobs: readonly AnyJob[] = []): Millrace {
  const mill = new Millrace({ store: new MemoryStore(), jobs: [mail, ...jobs] })
  onTestFinished(() => mill.close({ grace: 0 }))
  return mill
}

export type Answer = PublishResult | Error

const behind = { status: 'failed', error: new Error('one before it of its key was not published') } as const

/** Writes down what it is given, and answers as it is told. */
export class Recorder implements Publisher {
  readonly name = 'recorder'
  readonly messages: Message[] = []
  /** Each call's. */
  readonly batches: (readonly Message[])[] = []
  #waiting: { readonly count: number; readonly resolve: () => void }[] = []
  /** What it says of a message; an Error is thrown, for all of its batch. */
  answer: (message: Message, batch: readonly Message[]) => Answer | Promise<Answer> = () => 'published'

  async publish(messages: readonly Message[]): Promise<PublishResult[]> {
    this.batches.push(messages)
    const stuck = new Set<string>()
    const answers: PublishResult[] = []
    for (const message of messages) {
      const isBehind = message.key !== undefined && stuck.has(message.key)
      const answer = isBehind ? behind : await this.answer(message, messages)
      if (answer instanceof Error) throw answer
      answers.push(answer)
      if (answer === 'published') this.#took(message)
      else if (message.key !== undefined) stuck.add(message.key)
    }
    return answers
  }

  get ids(): string[] {
    return this.messages.map(({ id }) => id)
  }

  /** Resolves when it has taken so many. */
  async took(count: number): Promise<void> {
    if (this.messages.length >= count) return
    await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }))
  }

  #took(message: Message): void {
    this.messages.push(message)
    this.#waiting = this.#waiting.filter(({ count, resolve }) => {
      if (this.messages.length < count) return true
      resolve()
      return false
    })
  }
}

/** Resolves with the next event of a relay. */
export function next<E extends keyof RelayEvents>(relay: Relay, event: E): Promise<RelayEvents[E]> {
  return new Promise((resolve) => {
    const off = relay.on(event, (told) => {
      off()
      resolve(told)
    })
  })
}

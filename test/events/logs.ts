/** Logs of the engine that MILLRACE_TEST_ENGINE names, closed and cleaned up after the test. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { VirtualClock } from 'millrace/testing'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import type {
  AllPage,
  AllQuery,
  Append,
  AppendResult,
  EventLog,
  NewEvent,
  StoredEvent,
} from '../../src/events/log.js'
import { memoryLog } from '../../src/events/logs/memory/index.js'
import { postgresLog } from '../../src/events/logs/postgres/index.js'
import { sqliteLog } from '../../src/events/logs/sqlite/index.js'
import { freshSchema, serverUrl } from '../postgres/postgres.js'

export const engine = process.env.MILLRACE_TEST_ENGINE ?? 'memory'

/** Other instances and processes can be on the same data. */
export const isShared = engine !== 'memory'

export interface FreshLog {
  /** Open. */
  readonly log: EventLog
  /** Of all logs on these data. */
  readonly clock: VirtualClock
  /** Another log on the same data, open; only where they are shared. */
  another(): Promise<EventLog>
  /** A transaction of a caller's, on a connection that no log knows of where there is one. */
  begin(): Promise<CallersTransaction>
}

interface CallersTransaction {
  readonly tx: unknown
  commit(): Promise<void>
  rollback(): Promise<void>
}

export async function freshLog(): Promise<FreshLog> {
  const clock = new VirtualClock()
  const { make, begin } = await places[engine as keyof typeof places](clock)
  const another = async () => {
    const log = make()
    onTestFinished(() => log.close())
    await log.open()
    return log
  }
  const log = await another()
  return { log, clock, another, begin: () => begin(log) }
}

interface Place {
  make(): EventLog
  begin(log: EventLog): Promise<CallersTransaction>
}

const places = {
  memory: async (clock: VirtualClock): Promise<Place> => ({
    make: () => memoryLog({ clock }),
    begin: (log) => log.begin(),
  }),
  sqlite: async (clock: VirtualClock): Promise<Place> => {
    const file = freshFile()
    return {
      make: () => sqliteLog({ file, clock, synchronous: 'normal', busyTimeout: '10s' }),
      begin: async () => beginOn(file),
    }
  },
  postgres: async (clock: VirtualClock): Promise<Place> => {
    const schema = freshSchema()
    return {
      make: () => postgresLog({ url: serverUrl(), schema, clock, poolSize: 4 }),
      begin: beginOnServer,
    }
  },
}

/** Gone after the test. */
export function freshFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-events-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'events.db')
}

function beginOn(file: string): CallersTransaction {
  const db = new Database(file)
  onTestFinished(() => void db.close())
  db.exec('BEGIN IMMEDIATE')
  return {
    tx: db,
    commit: async () => void db.exec('COMMIT'),
    rollback: async () => void db.exec('ROLLBACK'),
  }
}

async function beginOnServer(): Promise<CallersTransaction> {
  const client = new pg.Client(serverUrl())
  await client.connect()
  await client.query('BEGIN')
  let isOpen = true
  const end = async (command: string) => {
    if (!isOpen) return
    isOpen = false
    await client.query(command)
    await client.end()
  }
  onTestFinished(() => end('ROLLBACK'))
  return { tx: client, commit: () => end('COMMIT'), rollback: () => end('ROLLBACK') }
}

export function newEvent(more: Partial<NewEvent> = {}): NewEvent {
  return { id: randomUUID(), type: 'happened', schema: 0, data: '{}', meta: undefined, ...more }
}

/** Of so many events, or of these. */
export function newAppend(
  stream: string,
  expected: Append['expected'] = 'any',
  events: number | readonly NewEvent[] = 1,
): Append {
  const list = typeof events === 'number' ? Array.from({ length: events }, () => newEvent()) : events
  return { id: (list[0] as NewEvent).id, stream, expected, events: list }
}

/** One append, whose result is all there is. */
export async function append(
  log: EventLog,
  stream: string,
  expected?: Append['expected'],
  events?: number | readonly NewEvent[],
): Promise<AppendResult> {
  const [result] = await log.append([newAppend(stream, expected, events)])
  return result as AppendResult
}

export function page(log: EventLog, query: Partial<AllQuery> = {}): Promise<AllPage> {
  return log.all({ after: 0, limit: 100, types: undefined, share: undefined, ...query })
}

/** All events that can be read at this moment, page after page. */
export async function readAll(log: EventLog, query: Partial<AllQuery> = {}): Promise<StoredEvent[]> {
  const events: StoredEvent[] = []
  for (let after = query.after ?? 0; ; ) {
    const { events: found, through, more } = await page(log, { ...query, after })
    events.push(...found)
    if (!more) return events
    after = through
  }
}

/** How the events of a test are told apart: `stream@version`. */
export function nameOf({ stream, version }: StoredEvent): string {
  return `${stream}@${version}`
}

export async function namesOf(log: EventLog, query: Partial<AllQuery> = {}): Promise<string[]> {
  return (await readAll(log, query)).map(nameOf)
}

export async function versionOf(log: EventLog, stream: string): Promise<number> {
  return (await log.stream({ stream, after: 0, backwards: false, limit: 1 })).version
}

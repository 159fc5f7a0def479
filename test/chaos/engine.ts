/** What the harness needs of an engine beyond the store contract. One entry per engine. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { Store } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'

/** Where the jobs of one run are; plain data, so that it can be handed to a child process. */
export interface Place {
  readonly engine: EngineName
  readonly file: string
}

interface Engine {
  place(folder: string): Place
  store(place: Place): Store
  /** 'ok', or what is damaged. */
  integrity(place: Place): string
  /** Whether somebody else can write now. */
  writable(place: Place): boolean
}

export const engines = {
  sqlite: {
    place: (folder: string): Place => ({ engine: 'sqlite', file: join(folder, 'jobs.db') }),
    store: ({ file }: Place) => new SqliteStore({ file }),
    integrity({ file }: Place) {
      const db = new Database(file)
      try {
        const rows = db.pragma('integrity_check') as { integrity_check: string }[]
        return rows.map((row) => row.integrity_check).join('; ')
      } finally {
        db.close()
      }
    },
    writable({ file }: Place) {
      const db = new Database(file, { timeout: 300 })
      try {
        db.exec('BEGIN IMMEDIATE; ROLLBACK')
        return true
      } catch {
        return false
      } finally {
        db.close()
      }
    },
  },
} satisfies Record<string, Engine>

export type EngineName = keyof typeof engines

export function openStore(place: Place): Store {
  return engines[place.engine].store(place)
}

export function integrity(place: Place): string {
  return engines[place.engine].integrity(place)
}

export function writable(place: Place): boolean {
  return engines[place.engine].writable(place)
}

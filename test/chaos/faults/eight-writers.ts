/**
 * Eight processes write to one file at once, a reader keeps a snapshot open, and somebody's own transaction
 * holds the write lock for longer than a lease. Nobody may be shown that the file was busy.
 */
import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { type Arena, sleep } from '../arena.js'
import { sqliteFile } from '../engine.js'
import { fault } from '../fault.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'

export const eightWriters = fault('eight-writers', 0, attack, ['sqlite'])

async function attack(arena: Arena): Promise<Row> {
  const rounds = Math.max(1, Math.round(2 * arena.options.scale))
  await Promise.all(Array.from({ length: 4 }, () => arena.startWorker()))
  const producers = Array.from({ length: 4 }, () =>
    arena.launchProducer({ jobs: Number.MAX_SAFE_INTEGER, pauseMs: 10, ballastBytes: 1_000 }),
  )
  await Promise.all(producers.map((producer) => producer.ready))
  let walBytes = 0
  for (let round = 0; round < rounds; round++) {
    await sleep(500)
    await holdOpen(arena, 'BEGIN', 1_500)
    walBytes = Math.max(walBytes, statSync(`${sqliteFile(arena.place)}-wal`).size)
    await holdOpen(arena, 'BEGIN IMMEDIATE', settings.leaseMs * 1.5)
    arena.options.progress(`${round + 1} of ${rounds} rounds`)
  }
  for (const producer of producers) producer.signal('SIGTERM')
  await Promise.all(producers.map((producer) => arena.ended(producer, 0)))
  const note = `8 writers, ${rounds} long readers, ${rounds} long writers; log grew to ${(walBytes / 1e6).toFixed(1)} MB`
  return arena.judge({ injected: 8 + 2 * rounds, note })
}

/** A transaction of somebody else's connection. */
async function holdOpen(arena: Arena, begin: string, ms: number): Promise<void> {
  const db = new Database(sqliteFile(arena.place), { timeout: 10_000 })
  try {
    db.exec(begin)
    db.prepare('SELECT count(*) FROM millrace_job').get()
    await sleep(ms)
    db.exec('COMMIT')
  } finally {
    db.close()
  }
}

/** Jobs that book an entry in the transaction in which they complete. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import { defineJob, type MillraceOptions } from 'millrace'
import { sqliteStore } from 'millrace/sqlite'

/** The first attempt of such a booking never ends by itself. */
export const forever = -1

export interface Booking {
  readonly order: string
  /** How long the transaction is open. */
  readonly ms: number
}

export const book = defineJob({
  name: 'book',
  transactional: true,
  retain: '1h',
  maxCrashes: 1_000,
  timeout: '1m',
  idempotency: { key: ({ order }: Booking) => order, ttl: '10d' },
  run: async ({ order, ms }: Booking, { tx, attempt }) => {
    const db = await tx<Database>()
    db.prepare('INSERT INTO entry (what) VALUES (?)').run(order)
    process.send?.({ inside: order })
    await sleep(ms === forever ? (attempt === 1 ? 60_000 : 0) : ms)
    return order
  },
})

export function bookMill(file: string): MillraceOptions {
  return { store: sqliteStore({ file, synchronous: 'normal' }), jobs: [book] }
}

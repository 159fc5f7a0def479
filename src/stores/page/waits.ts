import type { Entry } from '../ledger/entry.js'
import type { JobRow } from './job-row.js'

/** Jobs that wait for signals: those that have begun to, and those that no longer do. */
export class WaiterChanges {
  readonly came: { key: string; n: number; seq: number }[] = []
  readonly gone: { key: string; n: number }[] = []

  see(row: JobRow | undefined, entry: Entry, now: Entry | undefined): void {
    const before = row?.rest?.includes('"waits":') ? (JSON.parse(row.rest) as Waits) : undefined
    const waits = now?.story?.waits
    const n = now?.story?.waiter ?? 0
    if (before?.waits !== undefined && (waits === undefined || before.waiter !== n))
      for (const { key } of before.waits) this.gone.push({ key, n: before.waiter ?? 0 })
    if (waits !== undefined && before?.waiter !== n)
      for (const { key } of waits) this.came.push({ key, n, seq: entry.seq })
  }
}

interface Waits {
  readonly waits?: readonly { readonly key: string }[]
  readonly waiter?: number
}

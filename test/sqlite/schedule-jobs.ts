import { defineJob, type MillraceOptions } from 'millrace'
import { sqliteStore } from 'millrace/sqlite'

export const tick = defineJob<null>({ name: 'tick', retain: '1h', maxCrashes: 1_000, run: () => {} })

export function scheduleMill(file: string): MillraceOptions {
  return { store: sqliteStore({ file, synchronous: 'normal' }), jobs: [tick] }
}

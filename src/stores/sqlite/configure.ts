import type { Setting } from '../../core/store.js'
import { configure as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import type { Traffic } from './traffic.js'

export function makeConfigure(
  tables: Tables,
  traffic: Traffic,
  signals: { ready(queue: string): void },
): (setting: Setting) => void {
  const queues = tables.db.prepare<[], string>(sql.queues).pluck()

  return (setting) => {
    if ('paused' in setting) return pause(setting.queue, setting.paused)
    const now = tables.clock.now()
    if ('breaker' in setting) traffic.setBreaker(setting.job, setting.breaker, now)
    else if ('release' in setting) traffic.release(setting.gate, now)
    else traffic.configure(setting.gate, setting.change, setting.declared, now)
    // What was closed may be open now.
    for (const queue of queues.all()) signals.ready(queue)
  }

  function pause(queue: string, paused: boolean): void {
    tables.pause(queue, paused)
    if (!paused) signals.ready(queue)
  }
}

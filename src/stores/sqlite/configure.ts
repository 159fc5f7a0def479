import type { Setting } from '../../core/store.js'
import type { Flow } from './flow.js'
import { configure as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

export function makeConfigure(
  tables: Tables,
  flow: Flow,
  signals: { ready(queue: string): void },
): (setting: Setting) => void {
  const queues = tables.db.prepare<[], string>(sql.queues).pluck()

  return (setting) => {
    if ('paused' in setting) return pause(setting.queue, setting.paused)
    const now = tables.clock.now()
    if ('breaker' in setting) flow.setBreaker(setting.job, setting.breaker, now)
    else if ('release' in setting) flow.release(setting.gate, now)
    else flow.configure(setting.gate, setting.change, setting.declared, now)
    // What was closed may be open now.
    for (const queue of queues.all()) signals.ready(queue)
  }

  function pause(queue: string, paused: boolean): void {
    tables.pause(queue, paused)
    if (!paused) signals.ready(queue)
  }
}

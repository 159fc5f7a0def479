import type { Setting } from '../../core/store.js'
import type { Tables } from './tables.js'

export function configure(tables: Tables, setting: Setting, now: number): void {
  if ('paused' in setting) return pause(tables, setting.queue, setting.paused)
  if ('breaker' in setting) tables.traffic.setBreaker(setting.job, setting.breaker, now)
  else if ('release' in setting) tables.traffic.release(setting.gate, now)
  else tables.traffic.configure(setting.gate, setting.change, setting.declared, now)
  // What was closed may be open now.
  for (const queue of tables.kinds.queueNames()) tables.signals.ready(queue)
}

function pause({ kinds, signals }: Tables, name: string, paused: boolean): void {
  kinds.queue(name).paused = paused
  if (!paused) signals.ready(name)
}

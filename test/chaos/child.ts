import type { Place } from './place.js'

/** What every child process needs to know. */
export interface ChildConfig {
  readonly place: Place
  readonly journals: string
  readonly name: string
  readonly seed: number
}

/** The configuration that the harness gave this process; the process ends when the harness does. */
export function beChild<Config extends object = ChildConfig>(): Config {
  process.on('disconnect', () => process.exit())
  return JSON.parse(process.argv[2] ?? '') as Config
}

/** Tells the harness that this process is at work. */
export function tellReady(worker: string): void {
  process.send?.({ worker })
  // Silence tells the harness that the event loop is blocked.
  setInterval(() => process.send?.({ beat: true }), 100).unref()
}

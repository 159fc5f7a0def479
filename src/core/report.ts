import type { LogLine } from './job.js'
import type { Report } from './store.js'

/** The lines of a report that are not written yet, when so many lines of its run are. */
export function newLines({ logs = [], logsFrom }: Report, written: number): readonly LogLine[] {
  return logsFrom === undefined ? logs : logs.slice(Math.max(0, written - logsFrom))
}

/** How many lines of the run are written after that. */
export function linesAfter({ logs = [], logsFrom }: Report, written: number): number {
  return logsFrom === undefined ? written : Math.max(written, logsFrom + logs.length)
}

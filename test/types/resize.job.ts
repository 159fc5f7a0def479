/** A handler in a module of its own, for sandboxes.test-d.ts. */
import { defineHandler, type JobContext, snooze } from 'millrace'

export default defineHandler(async (input: { path: string; width: number }, { signal }) => {
  if (signal.aborted) return snooze('1m')
  return { bytes: input.path.length * input.width }
})

export function measure(path: string, { log }: JobContext): number {
  log(path)
  return path.length
}

export const notAHandler = 'text'

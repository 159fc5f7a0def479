import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from '../journal.js'
import type { EventsEvent } from './history.js'

/** A line is shorter. */
const window = 128 * 1024

/** The position of the last event that a follower says it has seen; 0 when there is none. */
export function lastSeen(journals: string, follower: string): number {
  const file = join(journals, `${follower}.jsonl`)
  if (!existsSync(file)) return 0
  const end = endOf(file)
  const lines = parse<EventsEvent>(end)
  const last = lines.reverse().find((event) => event.e === 'seen')
  return last?.e === 'seen' ? (last.events.at(-1)?.[0] ?? 0) : 0
}

/** From the beginning of a line. */
function endOf(file: string): Buffer {
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    const from = Math.max(0, size - window)
    const bytes = Buffer.alloc(size - from)
    readSync(fd, bytes, 0, bytes.length, from)
    return from === 0 ? bytes : bytes.subarray(bytes.indexOf('\n') + 1)
  } finally {
    closeSync(fd)
  }
}

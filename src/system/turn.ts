import { attempt } from './attempt.js'

/**
 * Work that is put together over one turn of the event loop. Calls made in the same turn share a batch
 * (`gather`), and batches made in the same turn share a commit (`commit`), so that a busy process pays one
 * round trip per turn and an idle one waits for nothing.
 */
let gathering: (() => void)[] = []
let committing: (() => void)[] = []
let scheduled = false

export function gather(fn: () => void): void {
  gathering.push(fn)
  schedule()
}

export function commit(fn: () => void): void {
  committing.push(fn)
  schedule()
}

/** Resolves when this turn's work is done. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => gather(resolve))
}

function schedule(): void {
  if (scheduled) return
  scheduled = true
  setImmediate(run)
}

function run(): void {
  try {
    // What is gathered while this runs belongs to the next turn; what it commits belongs to this one.
    const gathered = gathering
    gathering = []
    for (const fn of gathered) attempt(fn, undefined)
    const committed = committing
    committing = []
    for (const fn of committed) attempt(fn, undefined)
  } finally {
    scheduled = false
    if (gathering.length > 0 || committing.length > 0) schedule()
  }
}

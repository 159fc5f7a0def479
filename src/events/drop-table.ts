import type { Projection } from './define-projection.js'
import { contextOf, inTransaction } from './generations.js'
import type { EventRuntime } from './runtime.js'

/** Nobody waits for it: readers that have just asked for the table's name still find it for a while. */
export function dropLater(
  runtime: EventRuntime,
  projection: Projection,
  generation: number,
  ms: number,
): void {
  runtime.background(later(runtime, ms).then(() => dropTable(runtime, projection, generation)))
}

export async function dropTable(
  runtime: EventRuntime,
  projection: Projection,
  generation: number,
): Promise<void> {
  if (projection.drop === undefined) return
  try {
    await inTransaction(runtime, async (tx) => projection.drop?.(contextOf(projection, generation, tx)))
  } catch (error) {
    const { name } = projection
    // The next rebuild does it.
    runtime.listeners.emit('error', { error, during: `drop of projection '${name}'`, projection: name })
  }
}

/** After a while, or when the store is being closed. */
function later({ clock, closing }: EventRuntime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(closing.aborted ? 0 : ms, done)
    closing.addEventListener('abort', done)
    function done(): void {
      cancel()
      closing.removeEventListener('abort', done)
      resolve()
    }
  })
}

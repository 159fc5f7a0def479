import type { Projection } from './define-projection.js'
import { contextOf, inTransaction } from './generations.js'
import type { EventRuntime } from './runtime.js'

/**
 * Nobody waits for it: readers that have just asked for the table's name still find it for a while. A store that is closed
 * before leaves it to the next rebuild.
 */
export function dropLater(
  runtime: EventRuntime,
  projection: Projection,
  generation: number,
  ms: number,
): void {
  runtime.background(
    isStillOpenAfter(runtime, ms).then((isOpen) =>
      isOpen ? dropTable(runtime, projection, generation) : undefined,
    ),
  )
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

async function isStillOpenAfter({ clock, closing }: EventRuntime, ms: number): Promise<boolean> {
  if (ms === 0) return true
  await new Promise<void>((resolve) => {
    const cancel = clock.after(ms, done)
    closing.addEventListener('abort', done)
    if (closing.aborted) done()
    function done(): void {
      cancel()
      closing.removeEventListener('abort', done)
      resolve()
    }
  })
  return !closing.aborted
}

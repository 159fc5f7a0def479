import { MillraceError } from '../core/errors.js'
import { LinkedSignal } from '../system/linked-signal.js'
import type { StoredEvent } from './log.js'
import type { CompiledPolicy } from './retention.js'
import type { EventRuntime } from './runtime.js'

/** Resolves when a policy's `to` has them; rejects when it takes too long or the signal aborts, whether it heeds that or not. */
export async function archive(
  { catalogue, clock }: EventRuntime,
  category: string,
  { to, timeout }: CompiledPolicy,
  stored: readonly StoredEvent[],
  signal: AbortSignal,
): Promise<void> {
  const linked = new LinkedSignal(signal)
  const cancel = timeout > 0 && clock.after(timeout, () => linked.abort(tooLate(category, timeout)))
  try {
    const events = stored.map((event) => catalogue.asStored(event))
    await Promise.race([to?.(events, { signal: linked.signal }), aborted(linked.signal)])
  } finally {
    if (cancel) cancel()
    linked.letGo()
  }
  linked.signal.throwIfAborted()
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function tooLate(category: string, timeout: number): MillraceError {
  return new MillraceError(
    'WAIT_TIMEOUT',
    `the archive of category '${category}' took longer than its timeout of ${timeout} ms; nothing was removed, and the events come again`,
    { field: `retention.${category}.timeout`, limit: timeout },
  )
}

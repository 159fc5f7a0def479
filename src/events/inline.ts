import { invalid } from '../core/options.js'
import type { Written } from './append.js'
import type { InlineProjection } from './define-projection.js'
import type { Append } from './log.js'
import type { EventRuntime } from './runtime.js'
import { abandon, isThenable } from './thenable.js'

/** Whether an inline projection sees any of these. */
export function wantedInline(runtime: EventRuntime, { events }: Append): boolean {
  return inlineOf(runtime).some(({ on }) => events.some(({ type }) => Object.hasOwn(on, type)))
}

export async function runInline(runtime: EventRuntime, written: Written, tx: unknown): Promise<void> {
  for (const { run } of callsOf(runtime, written, tx)) await run()
}

/** The caller's function commits as it returns, so nothing may come later. */
export function runInlineNow(runtime: EventRuntime, written: Written, tx: unknown): void {
  for (const { run, projection } of callsOf(runtime, written, tx)) {
    const answer = run()
    if (!isThenable(answer)) continue
    abandon(answer)
    throw invalid(
      `the answer of inline projection '${projection}'`,
      'a promise',
      'a synchronous handler: in a transaction of this driver nothing can be awaited',
    )
  }
}

/**
 * Each projection gets all events in order; projections come in the order in which the store was given them. What had been
 * appended before has had its calls.
 */
function* callsOf(
  runtime: EventRuntime,
  { appended, events }: Written,
  tx: unknown,
): Generator<{ projection: string; run: () => unknown }, void> {
  if (appended.repeated) return
  const context = { tx: <Tx>() => tx as Tx }
  for (const { name, on } of inlineOf(runtime)) {
    for (const event of events) {
      const handler = Object.hasOwn(on, event.type) ? on[event.type] : undefined
      if (handler !== undefined) yield { projection: name, run: () => handler(event as never, context) }
    }
  }
}

function inlineOf({ projections }: EventRuntime): InlineProjection[] {
  return [...projections.values()].filter((projection) => projection.kind === 'inline')
}

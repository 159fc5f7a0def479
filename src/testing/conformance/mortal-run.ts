/** What models of handlers share: random events, some of which kill the worker between two calls of the store. */
import assert from 'node:assert/strict'
import type { Arbitrary, WeightedArbitrary } from 'fast-check'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import type { FastCheck } from './model-steps.js'
import type { MortalStore } from './mortal-store.js'
import { type Jobs, MortalWorker } from './mortal-worker.js'
import { checkProperty, type PropertyOptions } from './property.js'

export interface MortalModelOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
}

export type MortalEvent =
  | { readonly step: 'advance'; readonly ms: number }
  | { readonly step: 'kill'; readonly calls: number; readonly dieAfter: boolean }

/** Time goes on by one of these, and a worker dies within so many calls. */
export function mortalEvents(
  fc: FastCheck,
  advance: { readonly weight: number; readonly times: readonly number[] },
  mostCalls: number,
): WeightedArbitrary<MortalEvent>[] {
  const time = fc.record({ step: fc.constant('advance' as const), ms: fc.constantFrom(...advance.times) })
  const calls = fc.nat(mostCalls)
  const kill = fc.record({ step: fc.constant('kill' as const), calls, dieAfter: fc.boolean() })
  return [
    { weight: advance.weight, arbitrary: time },
    { weight: 3, arbitrary: kill },
  ]
}

/** A program of such parts is enqueued. */
export function enqueues<P>(fc: FastCheck, part: Arbitrary<P>, most: number) {
  return fc.record({
    step: fc.constant('enqueue' as const),
    program: fc.array(part, { minLength: 1, maxLength: most }),
  })
}

/** Parts that a handler waits for together. */
export function together<P>(fc: FastCheck, simple: Arbitrary<P>) {
  return fc.record({
    part: fc.constantFrom('all' as const, 'race' as const),
    parts: fc.array(simple, { minLength: 1, maxLength: 3 }),
  })
}

export function checkMortal<E extends { readonly step: string }>(
  complaint: string,
  { make, ...options }: MortalModelOptions,
  eventsOf: (fc: FastCheck) => Arbitrary<(E | MortalEvent)[]>,
  begin: (harness: StoreHarness) => MortalRun<E>,
): Promise<void> {
  return checkProperty(complaint, options, eventsOf, async (events, at) => {
    const harness = await make()
    const run = begin(harness)
    try {
      await run.worker.start()
      for (const event of events) await at(event.step, () => run.take(event))
      await at('the end', () => run.end())
    } finally {
      await run.worker.stop()
      await harness.close()
    }
  })
}

export abstract class MortalRun<E extends { readonly step: string }> {
  readonly worker: MortalWorker
  protected readonly store: Store
  protected readonly violations: string[] = []

  constructor(harness: StoreHarness) {
    this.worker = new MortalWorker(harness, (process) => this.definitions(process))
    this.store = harness.store
  }

  take(event: E | MortalEvent): Promise<void> {
    if (isMortal(event)) {
      return event.step === 'advance'
        ? this.worker.advance(event.ms)
        : this.worker.kill(event.calls, event.dieAfter)
    }
    return this.act(event)
  }

  /** All is well from now on: every job ends, and is judged. */
  async end(): Promise<void> {
    await this.worker.untilEnded(this.ids(), () => this.help())
    assert.deepEqual(this.violations, [])
    for (const id of this.ids()) await this.judge(id)
  }

  /** What is asked for again and again until all jobs have ended. */
  protected async help(): Promise<void> {}

  /** The jobs as a process that may be dead runs them. */
  protected abstract definitions(process: MortalStore): Jobs
  protected abstract act(event: E): Promise<void>
  protected abstract ids(): string[]
  protected abstract judge(id: string): Promise<void>
}

function isMortal(event: { readonly step: string }): event is MortalEvent {
  return event.step === 'advance' || event.step === 'kill'
}

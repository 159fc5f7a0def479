/**
 * Random sagas, run by workers that are killed between any two calls of the store. What was done is done, or
 * undone in reverse; nothing is done or undone again once that is known; no saga is left behind.
 */
import assert from 'node:assert/strict'
import type { Arbitrary } from 'fast-check'
import { NonRetryableError } from '../../core/errors.js'
import type { Store } from '../../core/store.js'
import { defineSaga } from '../../saga/index.js'
import type { StoreHarness } from './harness.js'
import type { FastCheck } from './model-steps.js'
import type { MortalStore } from './mortal-store.js'
import { MortalWorker } from './mortal-worker.js'
import { checkProperty, type PropertyOptions } from './property.js'

interface Plan {
  /** Which step fails for good, if any. */
  readonly failsAt: number | undefined
  /** How often each compensation fails before it succeeds. */
  readonly undoFails: readonly number[]
}

type Event =
  | ({ readonly step: 'enqueue' } & Plan)
  | { readonly step: 'advance'; readonly ms: number }
  | { readonly step: 'kill'; readonly calls: number; readonly dieAfter: boolean }

const names = ['a', 'b', 'c'] as const

export interface SagaModelOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
}

export function checkSagas({ make, ...options }: SagaModelOptions): Promise<void> {
  return checkProperty('a saga went wrong', options, eventsOf, async (events, at) => {
    const harness = await make()
    const run = new SagaRun(harness)
    try {
      await run.start()
      for (const event of events) await at(event.step, () => run.take(event))
      await at('the end', () => run.end())
    } finally {
      await run.stop()
      await harness.close()
    }
  })
}

function eventsOf(fc: FastCheck): Arbitrary<Event[]> {
  const event: Arbitrary<Event> = fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('enqueue' as const),
        failsAt: fc.constantFrom(undefined, 0, 1, 2, 2),
        undoFails: fc.array(fc.constantFrom(0, 0, 1, 2), {
          minLength: names.length,
          maxLength: names.length,
        }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ step: fc.constant('advance' as const), ms: fc.constantFrom(0, 50, 1_500) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ step: fc.constant('kill' as const), calls: fc.nat(9), dieAfter: fc.boolean() }),
    },
  )
  return fc.array(event, { minLength: 2, maxLength: 12 })
}

class SagaRun {
  readonly #worker: MortalWorker
  readonly #store: Store
  readonly #plans = new Map<string, Plan>()
  /** What was done and undone, in order, by job. */
  readonly #log = new Map<string, string[]>()
  readonly #violations: string[] = []

  constructor(harness: StoreHarness) {
    this.#worker = new MortalWorker(harness, (process) => this.#definition(process))
    this.#store = harness.store
  }

  start(): Promise<void> {
    return this.#worker.start()
  }

  stop(): Promise<void> {
    return this.#worker.stop()
  }

  async take(event: Event): Promise<void> {
    switch (event.step) {
      case 'enqueue': {
        const id = `saga-${this.#plans.size}`
        this.#plans.set(id, event)
        this.#log.set(id, [])
        return this.#worker.enqueue({ failsAt: event.failsAt, undoFails: event.undoFails }, id)
      }
      case 'advance':
        return this.#worker.advance(event.ms)
      case 'kill':
        return this.#worker.kill(event.calls, event.dieAfter)
    }
  }

  async end(): Promise<void> {
    const ids = [...this.#plans.keys()]
    await this.#worker.untilEnded(ids, async () => {})
    assert.deepEqual(this.#violations, [])
    for (const id of ids) await this.#judge(id)
  }

  async #judge(id: string): Promise<void> {
    const { failsAt } = this.#plans.get(id) as Plan
    const log = (this.#log.get(id) as string[]).filter((what, i, all) => what !== all[i - 1])
    const [record] = await this.#store.get([id])
    const undone = log.filter((what) => what.startsWith('undo '))
    if (record?.state === 'completed') {
      assert.equal(failsAt, undefined, id)
      assert.deepEqual(log, names)
      return
    }
    // A saga whose attempts were used up by kills is undone as well.
    assert.equal(record?.state, 'cancelled', id)
    const done = log.filter((what) => !what.startsWith('undo '))
    assert.deepEqual(done, names.slice(0, done.length), 'done in order, none skipped')
    if (failsAt !== undefined) assert.ok(done.length <= failsAt + 1, 'nothing is done after what failed')
    const reach = undone[0]?.slice('undo '.length) as (typeof names)[number]
    const from = names.indexOf(reach)
    assert.ok(from >= done.length - 1, 'all that was done is undone')
    assert.deepEqual(
      undone,
      names
        .slice(0, from + 1)
        .reverse()
        .map((name) => `undo ${name}`),
      'undone in reverse, none skipped',
    )
    assert.deepEqual(log, [...done, ...undone], 'nothing is done once undoing has begun')
  }

  #definition(process: MortalStore) {
    return defineSaga<Plan>({
      name: 'saga',
      maxAttempts: 3,
      backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' },
      compensation: { maxAttempts: 5, backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' } },
      steps: names.map((name, i) => ({
        name,
        run: async ({ input, jobId }: { input: Plan; jobId: string }) => {
          await this.#act(process, jobId, name, name)
          if (input.failsAt === i) throw new NonRetryableError(`${name} fails`)
        },
        compensate: async ({ input, jobId }: { input: Plan; jobId: string }) => {
          const tries = await this.#act(process, jobId, `undo ${name}`, `undo:${name}`)
          if (tries < (input.undoFails[i] ?? 0)) throw new Error(`undo ${name} fails`)
        },
      })),
    })
  }

  /** Returns how many tries of it are kept. */
  async #act(process: MortalStore, id: string, what: string, step: string): Promise<number> {
    if (process.dead) return new Promise(() => {})
    const steps = (await this.#store.trail(id))?.steps ?? []
    const kept = steps.filter(({ name }) => name === step || name.startsWith(`${step}#`))
    if (kept.some(({ value }) => !value?.includes('"failed"')))
      this.#violations.push(`${what} of ${id} again, although it was done`)
    this.#log.get(id)?.push(what)
    return kept.length
  }
}

/**
 * Random sagas, run by workers that are killed between any two calls of the store. What was done is done, or
 * undone in reverse; nothing is done or undone again once that is known; no saga is left behind.
 */
import assert from 'node:assert/strict'
import type { Arbitrary, WeightedArbitrary } from 'fast-check'
import { NonRetryableError } from '../../core/errors.js'
import { defineSaga } from '../../saga/index.js'
import type { FastCheck } from './model-steps.js'
import {
  checkMortal,
  type MortalEvent,
  type MortalModelOptions,
  MortalRun,
  mortalEvents,
} from './mortal-run.js'
import type { MortalStore } from './mortal-store.js'

interface Plan {
  /** Which step fails for good, if any. */
  readonly failsAt: number | undefined
  /** How often each compensation fails before it succeeds. */
  readonly undoFails: readonly number[]
}

type Event = { readonly step: 'enqueue' } & Plan

const names = ['a', 'b', 'c'] as const

export function checkSagas(options: MortalModelOptions): Promise<void> {
  return checkMortal<Event>('a saga went wrong', options, eventsOf, (harness) => new SagaRun(harness))
}

function eventsOf(fc: FastCheck): Arbitrary<(Event | MortalEvent)[]> {
  const event = fc.oneof<WeightedArbitrary<Event | MortalEvent>[]>(
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
    ...mortalEvents(fc, { weight: 2, times: [0, 50, 1_500] }, 9),
  )
  return fc.array(event, { minLength: 2, maxLength: 12 })
}

class SagaRun extends MortalRun<Event> {
  readonly #plans = new Map<string, Plan>()
  /** What was done and undone, in order, by job. */
  readonly #log = new Map<string, string[]>()

  protected act({ failsAt, undoFails }: Event): Promise<void> {
    const id = `saga-${this.#plans.size}`
    this.#plans.set(id, { failsAt, undoFails })
    this.#log.set(id, [])
    return this.worker.enqueue({ failsAt, undoFails }, id)
  }

  protected ids(): string[] {
    return [...this.#plans.keys()]
  }

  protected async judge(id: string): Promise<void> {
    const { failsAt } = this.#plans.get(id) as Plan
    const log = (this.#log.get(id) as string[]).filter((what, i, all) => what !== all[i - 1])
    const [record] = await this.store.get([id])
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

  protected definition(process: MortalStore) {
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
    const steps = (await this.store.trail(id))?.steps ?? []
    const kept = steps.filter(({ name }) => name === step || name.startsWith(`${step}#`))
    if (kept.some(({ value }) => !value?.includes('"failed"')))
      this.violations.push(`${what} of ${id} again, although it was done`)
    this.#log.get(id)?.push(what)
    return kept.length
  }
}

/**
 * Random sagas, whose steps and compensations fail and hang, which are cancelled at any time, and run by workers
 * that are killed between any two calls of the store. What was done is done, or undone in reverse; nothing is done or
 * undone again once that is known; nothing is undone once an irreversible step may have had its effect; what is dead
 * goes on when it is retried; no saga is left behind.
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
import type { Jobs } from './mortal-worker.js'

interface Plan {
  /** Which step fails for good, if any; the last one, which comes after the point of no return, until it is mended. */
  readonly failsAt: number | undefined
  /** How often each step hangs before it does what it is to do. */
  readonly hangs: readonly number[]
  /** How often each compensation fails, then hangs, before it succeeds. */
  readonly undoFails: readonly number[]
  readonly undoHangs: readonly number[]
}

type Event = ({ readonly step: 'enqueue' } & Plan) | { readonly step: 'cancel'; readonly which: number }

const names = ['a', 'b', 'c'] as const
/** The point of no return, and what comes after it. */
const fixed = ['d', 'e'] as const
const all: readonly string[] = [...names, ...fixed]

export function checkSagas(options: MortalModelOptions): Promise<void> {
  return checkMortal<Event>('a saga went wrong', options, eventsOf, (harness) => new SagaRun(harness))
}

function eventsOf(fc: FastCheck): Arbitrary<(Event | MortalEvent)[]> {
  const times = (count: number, ...of: number[]) =>
    fc.array(fc.constantFrom(...of), { minLength: count, maxLength: count })
  const event = fc.oneof<WeightedArbitrary<Event | MortalEvent>[]>(
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('enqueue' as const),
        failsAt: fc.constantFrom(undefined, 0, 1, 2, 2, 3, 4),
        hangs: times(all.length, 0, 0, 0, 0, 1, 4),
        undoFails: times(names.length, 0, 0, 1, 2),
        undoHangs: times(names.length, 0, 0, 0, 1, 6),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ step: fc.constant('cancel' as const), which: fc.nat(5) }),
    },
    ...mortalEvents(fc, { weight: 2, times: [0, 50, 1_500] }, 9),
  )
  return fc.array(event, { minLength: 2, maxLength: 12 })
}

class SagaRun extends MortalRun<Event> {
  readonly #plans = new Map<string, Plan>()
  /** What was done and undone, in order, by job. */
  readonly #log = new Map<string, string[]>()
  /** From now on nothing fails or hangs. */
  #mended = false

  protected async act(event: Event): Promise<void> {
    if (event.step === 'cancel') {
      const ids = this.ids().slice(event.which, event.which + 1)
      await this.store.operate({ ids }, { do: 'cancel', reason: 'not wanted', retain: 1_000_000 })
      return this.worker.advance(0)
    }
    const { step: _, ...plan } = event
    const id = `saga-${this.#plans.size}`
    this.#plans.set(id, plan)
    this.#log.set(id, [])
    await this.worker.enqueue(plan, id)
  }

  protected ids(): string[] {
    return [...this.#plans.keys()]
  }

  /** What is dead, or was undone, goes on when all is well. */
  override async end(): Promise<void> {
    await this.worker.untilEnded(this.ids(), () => this.help())
    for (const id of this.ids()) await this.#judgeDeath(id)
    this.#mended = true
    await this.store.operate({ ids: this.ids() }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    await super.end()
  }

  /** Somebody has to look because something could not be undone, or because there is no way back. */
  async #judgeDeath(id: string): Promise<void> {
    const [record] = await this.store.get([id])
    const log = this.#log.get(id) as string[]
    const isUndoing = log.some(isUndo)
    if (record?.state === 'dead')
      assert.equal(record.failure?.code === 'COMPENSATION_FAILED', isUndoing, `${id} died of what it says`)
    else if (record?.state === 'completed') assert.ok(!isUndoing, `${id} is not completed and undone`)
    // What has completed would be done again by a retry.
    if (record?.state === 'completed') await this.judge(id)
    if (record?.state === 'completed') this.#plans.delete(id)
  }

  protected async judge(id: string): Promise<void> {
    const { failsAt } = this.#plans.get(id) as Plan
    const log = (this.#log.get(id) as string[]).filter((what, i, all) => what !== all[i - 1])
    const [record] = await this.store.get([id])
    const undone = log.filter(isUndo)
    if (record?.state === 'completed') {
      assert.ok(failsAt === undefined || failsAt === 4, id)
      assert.deepEqual(log, all)
      return
    }
    if (failsAt !== 3) assert.ok(!log.includes('d'), `${id} is past its point of no return`)
    // A saga whose attempts were used up by kills is undone as well.
    assert.equal(record?.state, 'cancelled', id)
    const done = log.filter((what) => !isUndo(what))
    assert.deepEqual(done, all.slice(0, done.length), 'done in order, none skipped')
    if (failsAt !== undefined) assert.ok(done.length <= failsAt + 1, 'nothing is done after what failed')
    if (log.length === 0) return // cancelled before it began
    const reach = undone[0]?.slice('undo '.length) as (typeof names)[number]
    const from = names.indexOf(reach)
    assert.ok(from >= Math.min(done.length, names.length) - 1, 'all that was done is undone')
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

  protected definitions(process: MortalStore): Jobs {
    const saga = defineSaga<Plan>({
      name: 'saga',
      maxAttempts: 3,
      timeout: '500ms',
      backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' },
      compensation: { maxAttempts: 5, backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' } },
      steps: [
        ...names.map((name, i) => ({
          name,
          run: (context: Context) => this.#do(process, context, name),
          compensate: (context: Context) => this.#undo(process, context, name, i),
        })),
        ...fixed.map((name) => ({
          name,
          run: (context: Context) => this.#do(process, context, name),
          irreversible: true as const,
        })),
      ],
    })
    return [saga]
  }

  async #do(process: MortalStore, context: Context, name: string): Promise<void> {
    const { input, jobId } = context
    await this.#act(process, jobId, name, name)
    const i = all.indexOf(name)
    if (this.#countOf(jobId, name) <= (input.hangs[i] ?? 0)) await this.#hang(context)
    if (input.failsAt === i && (i < 4 || !this.#mended)) throw new NonRetryableError(`${name} fails`)
  }

  async #undo(process: MortalStore, context: Context, name: string, i: number): Promise<void> {
    const { input, jobId } = context
    const tries = await this.#act(process, jobId, `undo ${name}`, `undo:${name}`)
    const fails = input.undoFails[i] ?? 0
    if (!this.#mended && tries < fails) throw new Error(`undo ${name} fails`)
    if (tries < fails + (input.undoHangs[i] ?? 0)) await this.#hang(context)
  }

  /** Until it is told to stop. */
  async #hang({ signal }: Context): Promise<void> {
    if (this.#mended) return
    await new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason)
      signal.addEventListener('abort', () => reject(signal.reason))
    })
  }

  #countOf(id: string, what: string): number {
    return this.#log.get(id)?.filter((one) => one === what).length ?? 0
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

type Context = { readonly input: Plan; readonly jobId: string; readonly signal: AbortSignal }

function isUndo(what: string): boolean {
  return what.startsWith('undo ')
}

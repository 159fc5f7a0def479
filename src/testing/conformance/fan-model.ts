/**
 * Random handlers whose steps add children, with replays of these and workers that are killed between any two calls of
 * the store. What a handler went on from it finds in each later run; and who died of a child ends well when all that
 * is dead is replayed often enough.
 */
import assert from 'node:assert/strict'
import type { Arbitrary, WeightedArbitrary } from 'fast-check'
import { type AnyJob, type Child, defineJob, type JobContext } from '../../core/definition.js'
import type { FastCheck } from './model-steps.js'
import {
  checkMortal,
  enqueues,
  type MortalEvent,
  type MortalModelOptions,
  MortalRun,
  mortalEvents,
  together,
} from './mortal-run.js'
import type { MortalStore } from './mortal-store.js'
import type { Jobs } from './mortal-worker.js'

const ways = ['die', 'catch', 'continue', 'ignore'] as const

type Simple =
  /** Each child fails as often as is said here. `way`: what the handler does about one that failed. */
  | { readonly part: 'children'; readonly fail: readonly number[]; readonly way: (typeof ways)[number] }
  | { readonly part: 'sleep'; readonly ms: number }
  | { readonly part: 'step' }

type Part = Simple | { readonly part: 'all' | 'race'; readonly parts: readonly Simple[] }

type Event =
  | { readonly step: 'enqueue'; readonly program: readonly Part[] }
  | { readonly step: 'replay'; readonly state: 'dead' | 'completed' }

interface ChildInput {
  readonly key: string
  readonly fail: number
}

export function checkFans(options: MortalModelOptions): Promise<void> {
  return checkMortal<Event>('children went wrong', options, eventsOf, (harness) => new FanRun(harness))
}

function eventsOf(fc: FastCheck): Arbitrary<(Event | MortalEvent)[]> {
  const children: Arbitrary<Simple> = fc.record({
    part: fc.constant('children' as const),
    fail: fc.array(fc.constantFrom(0, 0, 1, 2), { minLength: 1, maxLength: 3 }),
    way: fc.constantFrom(...ways),
  })
  const simple: Arbitrary<Simple> = fc.oneof(
    { weight: 4, arbitrary: children },
    {
      weight: 1,
      arbitrary: fc.record({ part: fc.constant('sleep' as const), ms: fc.constantFrom(50, 700, 3_000) }),
    },
    { weight: 1, arbitrary: fc.record({ part: fc.constant('step' as const) }) },
  )
  const part: Arbitrary<Part> = fc.oneof(
    { weight: 3, arbitrary: simple },
    { weight: 2, arbitrary: together(fc, simple) },
  )
  const event = fc.oneof<WeightedArbitrary<Event | MortalEvent>[]>(
    { weight: 3, arbitrary: enqueues(fc, part, 4) },
    {
      weight: 3,
      arbitrary: fc.record({
        step: fc.constant('replay' as const),
        state: fc.constantFrom('dead' as const, 'completed' as const),
      }),
    },
    ...mortalEvents(fc, { weight: 4, times: [0, 50, 300, 1_500] }, 8),
  )
  return fc.array(event, { minLength: 2, maxLength: 14 })
}

class FanRun extends MortalRun<Event> {
  readonly #programs = new Map<string, readonly Part[]>()
  /** How often each child ran. */
  readonly #ran = new Map<string, number>()

  protected async act(event: Event): Promise<void> {
    if (event.step === 'replay') return this.#replay(event.state)
    const id = `job-${this.#programs.size}`
    this.#programs.set(id, event.program)
    await this.worker.enqueue(event.program, id)
  }

  async #replay(state: 'dead' | 'completed'): Promise<void> {
    const command = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
    await this.store.operate({ filter: { state, name: 'part' }, limit: 100 }, command)
    await this.worker.advance(0)
  }

  protected ids(): string[] {
    return [...this.#programs.keys()]
  }

  override async end(): Promise<void> {
    const help = () => this.#replay('dead')
    for (let round = 0; round < 20; round++) {
      await this.worker.untilEnded(this.ids(), help)
      const records = await this.store.get(this.ids())
      if (records.every((record) => record?.state === 'completed')) break
      await help()
    }
    await super.end()
  }

  protected async judge(id: string): Promise<void> {
    const [record] = await this.store.get([id])
    assert.equal(record?.state, 'completed', `${id}: ${record?.failure?.message}`)
  }

  protected definitions(mortal: MortalStore): Jobs {
    const child = defineJob({
      name: 'part',
      maxAttempts: 1,
      maxCrashes: 1_000,
      run: ({ key, fail }: ChildInput) => {
        if (mortal.dead) return new Promise<string>(() => {})
        const ran = (this.#ran.get(key) ?? 0) + 1
        this.#ran.set(key, ran)
        if (ran <= fail) throw new Error(`run ${ran} of ${key} fails`)
        return `run ${ran}`
      },
    })
    const program = defineJob({
      name: 'program',
      maxCrashes: 1_000,
      run: async (parts: readonly Part[], context) => {
        for (const [i, part] of parts.entries()) await this.#take(part, `s${i}`, context, child)
      },
    })
    return [program, child]
  }

  /** A step keeps what was seen: it is the same whenever the handler comes here. */
  async #take(part: Part, name: string, context: JobContext, child: AnyJob): Promise<void> {
    const seen = JSON.stringify((await this.#perform(part, name, context, child)) ?? null)
    const kept = await context.step(`after-${name}`, () => seen)
    if (seen !== kept) this.violations.push(`${name} of ${context.jobId} gave ${kept}, and later ${seen}`)
  }

  #perform(part: Part, name: string, context: JobContext, child: AnyJob): Promise<unknown> {
    const { step } = context
    const among = (parts: readonly Simple[]) =>
      parts.map((one, i) => async () => (await this.#perform(one, `${name}.${i}`, context, child)) ?? null)
    switch (part.part) {
      case 'step':
        return step(name, () => name)
      case 'sleep':
        return step.sleep(part.ms, { name })
      case 'children':
        return this.#children(part, name, context, child)
      case 'race':
        return step.race(among(part.parts))
      case 'all':
        return step.all(among(part.parts))
    }
  }

  async #children(
    { fail, way }: Extract<Simple, { part: 'children' }>,
    name: string,
    { step, jobId }: JobContext,
    child: AnyJob,
  ): Promise<unknown> {
    const inputs = fail.map((times, i): ChildInput => ({ key: `${jobId} ${name} ${i}`, fail: times }))
    if (way === 'continue') {
      const all = await step.children(name, child, inputs, { onFailure: 'continue' })
      return (all as Child[]).map(({ state, result }) => [state, result])
    }
    const given = step.children(name, child, inputs, { onFailure: way === 'ignore' ? 'ignore' : 'fail' })
    return way === 'catch' ? given.catch(({ code }: { code: string }) => code) : given
  }
}

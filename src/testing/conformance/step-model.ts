/**
 * Random handlers of steps, sleeps and waits, run by workers that are killed between any two calls of the store.
 * Every step ends with one memo, in order, and never runs again once it has one; no job is left behind.
 */
import assert from 'node:assert/strict'
import type { Arbitrary, WeightedArbitrary } from 'fast-check'
import { defineJob, type JobContext } from '../../core/definition.js'
import type { StepRecord } from '../../core/step.js'
import { nextTurn } from '../../system/turn.js'
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

type Part =
  /** Fails the first times that it runs. */
  | { readonly part: 'step'; readonly fails: number }
  | { readonly part: 'sleep'; readonly ms: number }
  | { readonly part: 'wait'; readonly key: number; readonly timeout: number | undefined }
  /** Work that no step knows of, over so many turns of the event loop. */
  | { readonly part: 'plain'; readonly turns: number }
  | { readonly part: 'all' | 'race'; readonly parts: readonly Part[] }

type Event =
  | { readonly step: 'enqueue'; readonly program: readonly Part[] }
  | { readonly step: 'signal'; readonly key: number }

export function checkSteps(options: MortalModelOptions): Promise<void> {
  return checkMortal<Event>('steps went wrong', options, eventsOf, (harness) => new StepRun(harness))
}

function eventsOf(fc: FastCheck): Arbitrary<(Event | MortalEvent)[]> {
  const simple: Arbitrary<Part> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ part: fc.constant('step' as const), fails: fc.constantFrom(0, 0, 0, 1, 2) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ part: fc.constant('sleep' as const), ms: fc.constantFrom(0, 50, 700, 3_000) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        part: fc.constant('wait' as const),
        key: fc.nat(1),
        timeout: fc.constantFrom(undefined, 0, 400, 2_000),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ part: fc.constant('plain' as const), turns: fc.constantFrom(1, 2, 5) }),
    },
  )
  const part: Arbitrary<Part> = fc.oneof(
    { weight: 5, arbitrary: simple },
    { weight: 2, arbitrary: together(fc, simple) },
  )
  const event = fc.oneof<WeightedArbitrary<Event | MortalEvent>[]>(
    { weight: 3, arbitrary: enqueues(fc, part, 6) },
    { weight: 2, arbitrary: fc.record({ step: fc.constant('signal' as const), key: fc.nat(1) }) },
    ...mortalEvents(fc, { weight: 4, times: [0, 50, 300, 1_500] }, 6),
  )
  return fc.array(event, { minLength: 2, maxLength: 14 })
}

class StepRun extends MortalRun<Event> {
  readonly #programs = new Map<string, readonly Part[]>()
  /** How often each step ran, and when first, by its key. */
  readonly #ran = new Map<string, number>()
  readonly #startedAt = new Map<string, number>()
  /** Who won each race, in all runs. */
  readonly #winners = new Map<string, Set<number>>()
  #sent = 0

  protected async act(event: Event): Promise<void> {
    if (event.step === 'signal') return this.#signal(event.key)
    const id = `job-${this.#programs.size}`
    this.#programs.set(id, event.program)
    await this.worker.enqueue(event.program, id)
  }

  protected ids(): string[] {
    return [...this.#programs.keys()]
  }

  /** Whatever is waited for comes. */
  protected override async help(): Promise<void> {
    await this.#signal(0)
    await this.#signal(1)
  }

  protected async judge(id: string): Promise<void> {
    const [record] = await this.store.get([id])
    assert.equal(record?.state, 'completed', id)
    const steps = (await this.store.trail(id))?.steps ?? []
    const result = JSON.parse(record?.result ?? '[]') as unknown[]
    const program = this.#programs.get(id) as readonly Part[]
    const memos = new Map(steps.map((step) => [step.name, step]))
    for (const [i, part] of program.entries()) this.#judgePart(id, part, `s${i}`, memos, result[i])
    this.#judgeRaces(id, program, memos, result)
    const beside = losersOf(program, result)
    const order = steps
      .filter(({ name }) => !name.startsWith('race') && !beside.has(name))
      .map(({ name }) => Number(name.slice(1).split('.')[0]))
    assert.deepEqual(
      order,
      [...order].sort((a, b) => a - b),
      `steps of ${id} in order`,
    )
    this.#judgeSleeps(id, program, memos)
  }

  #judgePart(
    id: string,
    part: Part,
    name: string,
    memos: ReadonlyMap<string, StepRecord>,
    result: unknown,
  ): void {
    if (part.part === 'all') {
      for (const [i, one] of part.parts.entries())
        this.#judgePart(id, one, `${name}.${i}`, memos, (result as unknown[])[i])
      return
    }
    if (part.part === 'race') {
      const { won, value } = result as Won
      return this.#judgePart(id, part.parts[won] as Part, `${name}.${won}`, memos, value)
    }
    if (part.part === 'plain') return assert.equal(result, 'plain')
    const memo = memos.get(name)
    assert.equal(memo?.open, false, `${part.part} ${name} of ${id} is over`)
    const value = memo?.value === undefined ? null : (JSON.parse(memo.value) as unknown)
    assert.deepEqual(untagged(result), value, `${name} of ${id} gave what is kept`)
    if (part.part === 'step') assert.ok((this.#ran.get(`${id}:${name}`) ?? 0) > part.fails)
    if (part.part === 'wait' && part.timeout === undefined) assert.ok(memo?.signal, `${name} had a signal`)
  }

  /** Who has won a race wins it in every run. */
  #judgeRaces(
    id: string,
    program: readonly Part[],
    memos: ReadonlyMap<string, StepRecord>,
    result: readonly unknown[],
  ): void {
    const races = program.flatMap(({ part }, i) => (part === 'race' ? [result[i] as Won] : []))
    for (const [n, { won }] of races.entries()) {
      const memo = memos.get(n === 0 ? 'race' : `race#${n + 1}`)
      assert.equal((JSON.parse(memo?.value ?? '{}') as Partial<Won>).won, won, `race ${n + 1} of ${id}`)
      assert.deepEqual([...(this.#winners.get(`${id} ${n}`) ?? [])], [won], `race ${n + 1} of ${id}`)
    }
  }

  /**
   * Nothing after a sleep began before it was over. One of no time at all is over at once, by the worker's clock,
   * which runs ahead here: it is set by a store whose clock moves first.
   */
  #judgeSleeps(id: string, program: readonly Part[], memos: ReadonlyMap<string, StepRecord>): void {
    for (const [i, part] of program.entries()) {
      const until = part.part === 'sleep' && part.ms > 0 ? memos.get(`s${i}`)?.until : undefined
      const next = this.#startedAt.get(`${id}:s${i + 1}`)
      if (until !== undefined && next !== undefined)
        assert.ok(next >= until, `s${i + 1} of ${id} began ${until - next} ms before the sleep was over`)
    }
  }

  protected definitions(mortal: MortalStore): Jobs {
    const program = defineJob({
      name: 'program',
      maxAttempts: 1_000,
      maxCrashes: 1_000,
      backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' },
      run: async (program: readonly Part[], context) => {
        const results: unknown[] = []
        let races = 0
        for (const [i, part] of program.entries()) {
          const result = (await this.#perform(part, `s${i}`, context, mortal)) ?? null
          if (part.part === 'race') this.#noteWinner(`${context.jobId} ${races++}`, result as Won)
          results.push(result)
        }
        return results
      },
    })
    return [program]
  }

  #perform(part: Part, name: string, context: JobContext, mortal: MortalStore): Promise<unknown> {
    const { step } = context
    switch (part.part) {
      case 'step':
        return step(name, ({ key }) => this.#work(part, name, key, context.jobId, mortal))
      case 'sleep':
        return step.sleep(part.ms, { name })
      case 'wait': {
        const timeout = part.timeout === undefined ? {} : { timeout: part.timeout }
        return step.waitFor(`key-${part.key}`, { name, ...timeout })
      }
      case 'plain':
        return plainWork(part.turns)
      case 'race':
        return step.race(
          part.parts.map((one, i) => async (): Promise<Won> => {
            const value = await this.#perform(one, `${name}.${i}`, context, mortal)
            return { won: i, value: value ?? null }
          }),
        )
      case 'all':
        return step.all(
          part.parts.map(
            (one, i) => async () => (await this.#perform(one, `${name}.${i}`, context, mortal)) ?? null,
          ),
        )
    }
  }

  #noteWinner(race: string, { won }: Won): void {
    this.#winners.set(race, (this.#winners.get(race) ?? new Set()).add(won))
  }

  async #work(
    { fails }: Extract<Part, { part: 'step' }>,
    name: string,
    key: string,
    id: string,
    mortal: MortalStore,
  ): Promise<string> {
    if (mortal.dead) return new Promise(() => {})
    const trail = await this.store.trail(id)
    if (trail?.steps.some((step) => step.name === name && !step.open))
      this.violations.push(`${key} ran after it was done`)
    const ran = (this.#ran.get(key) ?? 0) + 1
    this.#ran.set(key, ran)
    if (!this.#startedAt.has(key)) this.#startedAt.set(key, this.worker.now)
    if (ran <= fails) throw new Error(`run ${ran} of ${key} fails`)
    return `run ${ran}`
  }

  async #signal(key: number): Promise<void> {
    const n = ++this.#sent
    await this.store.signal([{ key: `key-${key}`, id: `${n}`, payload: `${n}`, retain: 60_000 }])
    await this.worker.advance(0)
  }
}

interface Won {
  readonly won: number
  readonly value: unknown
}

/** Steps that lost a race: the handler goes on while they still run, so they may end later than what follows. */
function losersOf(program: readonly Part[], result: readonly unknown[]): ReadonlySet<string> {
  const names = program.flatMap((part, i) => {
    if (part.part !== 'race') return []
    const { won } = result[i] as Won
    return part.parts.flatMap((_, n) => (n === won ? [] : [`s${i}.${n}`]))
  })
  return new Set(names)
}

async function plainWork(turns: number): Promise<string> {
  for (let i = 0; i < turns; i++) await nextTurn()
  return 'plain'
}

/** Undefined in an array is kept as such, and nothing as null. */
function untagged(value: unknown): unknown {
  return value ?? null
}

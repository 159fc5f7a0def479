/**
 * Random handlers of steps, sleeps and waits, run by workers that are killed between any two calls of the store.
 * Every step ends with one memo, in order, and never runs again once it has one; no job is left behind.
 */
import assert from 'node:assert/strict'
import type { Arbitrary } from 'fast-check'
import { defineJob, type JobContext } from '../../core/definition.js'
import type { StepRecord } from '../../core/step.js'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import type { FastCheck } from './model-steps.js'
import type { MortalStore } from './mortal-store.js'
import { MortalWorker } from './mortal-worker.js'
import { checkProperty, type PropertyOptions } from './property.js'

type Part =
  /** Fails the first times that it runs. */
  | { readonly part: 'step'; readonly fails: number }
  | { readonly part: 'sleep'; readonly ms: number }
  | { readonly part: 'wait'; readonly key: number; readonly timeout: number | undefined }
  | { readonly part: 'all'; readonly parts: readonly Part[] }

type Event =
  | { readonly step: 'enqueue'; readonly program: readonly Part[] }
  | { readonly step: 'advance'; readonly ms: number }
  | { readonly step: 'signal'; readonly key: number }
  | { readonly step: 'kill'; readonly calls: number; readonly dieAfter: boolean }

export interface StepModelOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
}

export function checkSteps({ make, ...options }: StepModelOptions): Promise<void> {
  return checkProperty('steps went wrong', options, eventsOf, async (events, at) => {
    const harness = await make()
    const run = new StepRun(harness)
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
  )
  const part: Arbitrary<Part> = fc.oneof(
    { weight: 5, arbitrary: simple },
    {
      weight: 1,
      arbitrary: fc.record({
        part: fc.constant('all' as const),
        parts: fc.array(simple, { minLength: 1, maxLength: 3 }),
      }),
    },
  )
  const event: Arbitrary<Event> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        step: fc.constant('enqueue' as const),
        program: fc.array(part, { minLength: 1, maxLength: 6 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ step: fc.constant('advance' as const), ms: fc.constantFrom(0, 50, 300, 1_500) }),
    },
    { weight: 2, arbitrary: fc.record({ step: fc.constant('signal' as const), key: fc.nat(1) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        step: fc.constant('kill' as const),
        calls: fc.nat(6),
        dieAfter: fc.boolean(),
      }),
    },
  )
  return fc.array(event, { minLength: 2, maxLength: 14 })
}

class StepRun {
  readonly #worker: MortalWorker
  readonly #store: Store
  readonly #programs = new Map<string, readonly Part[]>()
  /** How often each step ran, and when first, by its key. */
  readonly #ran = new Map<string, number>()
  readonly #startedAt = new Map<string, number>()
  readonly #violations: string[] = []
  #sent = 0

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
        const id = `job-${this.#programs.size}`
        this.#programs.set(id, event.program)
        return this.#worker.enqueue(event.program, id)
      }
      case 'advance':
        return this.#worker.advance(event.ms)
      case 'signal':
        return this.#signal(event.key)
      case 'kill':
        return this.#worker.kill(event.calls, event.dieAfter)
    }
  }

  /** All is well from now on: whatever is waited for comes. */
  async end(): Promise<void> {
    const ids = [...this.#programs.keys()]
    await this.#worker.untilEnded(ids, async () => {
      await this.#signal(0)
      await this.#signal(1)
    })
    assert.deepEqual(this.#violations, [])
    for (const id of ids) await this.#judge(id)
  }

  async #judge(id: string): Promise<void> {
    const [record] = await this.#store.get([id])
    assert.equal(record?.state, 'completed', id)
    const steps = (await this.#store.trail(id))?.steps ?? []
    const result = JSON.parse(record?.result ?? '[]') as unknown[]
    const program = this.#programs.get(id) as readonly Part[]
    const memos = new Map(steps.map((step) => [step.name, step]))
    for (const [i, part] of program.entries()) this.#judgePart(id, part, `s${i}`, memos, result[i])
    const order = steps.map(({ name }) => Number(name.slice(1).split('.')[0]))
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
    const memo = memos.get(name)
    assert.equal(memo?.open, false, `${part.part} ${name} of ${id} is over`)
    const value = memo?.value === undefined ? null : (JSON.parse(memo.value) as unknown)
    assert.deepEqual(untagged(result), value, `${name} of ${id} gave what is kept`)
    if (part.part === 'step') assert.ok((this.#ran.get(`${id}:${name}`) ?? 0) > part.fails)
    if (part.part === 'wait' && part.timeout === undefined) assert.ok(memo?.signal, `${name} had a signal`)
  }

  /** Nothing after a sleep began before it was over. */
  #judgeSleeps(id: string, program: readonly Part[], memos: ReadonlyMap<string, StepRecord>): void {
    for (const [i, part] of program.entries()) {
      const until = part.part === 'sleep' ? memos.get(`s${i}`)?.until : undefined
      const next = this.#startedAt.get(`${id}:s${i + 1}`)
      if (until !== undefined && next !== undefined)
        assert.ok(next >= until, `s${i + 1} of ${id} began ${until - next} ms before the sleep was over`)
    }
  }

  #definition(mortal: MortalStore) {
    return defineJob({
      name: 'program',
      maxAttempts: 1_000,
      maxCrashes: 1_000,
      backoff: { type: 'fixed', initialDelay: 100, jitter: 'none' },
      run: async (program: readonly Part[], context) => {
        const results: unknown[] = []
        for (const [i, part] of program.entries())
          results.push((await this.#perform(part, `s${i}`, context, mortal)) ?? null)
        return results
      },
    })
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
      case 'all':
        return step.all(
          part.parts.map(
            (one, i) => async () => (await this.#perform(one, `${name}.${i}`, context, mortal)) ?? null,
          ),
        )
    }
  }

  async #work(
    { fails }: Extract<Part, { part: 'step' }>,
    name: string,
    key: string,
    id: string,
    mortal: MortalStore,
  ): Promise<string> {
    if (mortal.dead) return new Promise(() => {})
    const trail = await this.#store.trail(id)
    if (trail?.steps.some((step) => step.name === name && !step.open))
      this.#violations.push(`${key} ran after it was done`)
    const ran = (this.#ran.get(key) ?? 0) + 1
    this.#ran.set(key, ran)
    if (!this.#startedAt.has(key)) this.#startedAt.set(key, this.#worker.now)
    if (ran <= fails) throw new Error(`run ${ran} of ${key} fails`)
    return `run ${ran}`
  }

  async #signal(key: number): Promise<void> {
    const n = ++this.#sent
    await this.#store.signal([{ key: `key-${key}`, id: `${n}`, payload: `${n}`, retain: 60_000 }])
    await this.#worker.advance(0)
  }
}

/** Undefined in an array is kept as such, and nothing as null. */
function untagged(value: unknown): unknown {
  return value ?? null
}

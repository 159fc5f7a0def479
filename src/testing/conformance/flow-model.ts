/**
 * The flow test: random runs with limits, groups, breakers and crashes, every claim judged by an oracle that only
 * counts. A failure is shrunk and says how to replay it.
 */
import assert from 'node:assert/strict'
import type { Store } from '../../core/store.js'
import { FlowRun } from './flow-run.js'
import { type FlowStep, flowStepsOf } from './flow-steps.js'
import type { StoreHarness } from './harness.js'
import { checkProperty, type PropertyOptions } from './property.js'

const mostSteps = 40

export interface FlowOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
  /** @default the harness's own store alone */
  readonly handles?: (harness: StoreHarness) => Promise<Store[]>
}

/** No limit is broken, no lane passed over, no job held back without cause, and everything gets done. */
export function checkFlow({ make, handles, ...options }: FlowOptions): Promise<void> {
  return checkProperty(
    'the store breaks a rule',
    options,
    (fc) => flowStepsOf(fc, mostSteps),
    async (steps, at) => {
      const harness = await make()
      try {
        const run = new FlowRun(harness, await handles?.(harness))
        await run.begin()
        for (const step of steps) await at(step.step, () => stepAndCheck(run, step))
        await at('lists', () => run.checkLists())
        await at('drain', () => run.drain())
      } finally {
        await harness.close()
      }
    },
  )
}

/** The same over two handles that take turns: what one remembers the other has changed. */
export function checkFlowOverHandles({ make, ...options }: FlowOptions): Promise<void> {
  return checkFlow({
    ...options,
    make,
    handles: async ({ store, second }) => (second === undefined ? [store] : [store, await second()]),
  })
}

/** The same steps show the same in both stores: the same jobs, in the same order, and the same gates. */
export function checkSameFlow(
  options: FlowOptions & { readonly reference: () => Promise<StoreHarness> },
): Promise<void> {
  const { make, reference, ...rest } = options
  return checkProperty(
    'the stores part',
    rest,
    (fc) => flowStepsOf(fc, mostSteps),
    async (steps, at) => {
      const harnesses = [await reference(), await make()] as const
      try {
        const [one, other] = [new FlowRun(harnesses[0]), new FlowRun(harnesses[1])]
        await one.begin()
        await other.begin()
        for (const step of steps) {
          await at(step.step, async () => {
            const expected = await stepAndCheck(one, step)
            assert.deepEqual(await stepAndCheck(other, step), expected)
          })
        }
      } finally {
        for (const harness of harnesses) await harness.close()
      }
    },
  )
}

async function stepAndCheck(run: FlowRun, step: FlowStep): Promise<unknown> {
  return [await run.take(step), await run.checkGates()]
}

/**
 * The traffic test: random runs with limits, groups, breakers and crashes, every claim judged by an oracle that only
 * counts. A failure is shrunk and says how to replay it.
 */
import assert from 'node:assert/strict'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import { checkProperty, type PropertyOptions } from './property.js'
import { TrafficRun } from './traffic-run.js'
import { type TrafficStep, trafficStepsOf } from './traffic-steps.js'

const mostSteps = 40

export interface TrafficOptions extends PropertyOptions {
  readonly make: () => Promise<StoreHarness>
  /** @default the harness's own store alone */
  readonly handles?: (harness: StoreHarness) => Promise<Store[]>
}

/** No limit is broken, no lane passed over, no job held back without cause, and everything gets done. */
export function checkTraffic({ make, handles, ...options }: TrafficOptions): Promise<void> {
  return checkProperty(
    'the store breaks a rule',
    options,
    (fc) => trafficStepsOf(fc, mostSteps),
    async (steps, at) => {
      const harness = await make()
      try {
        const run = new TrafficRun(harness, await handles?.(harness))
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
export function checkTrafficOverHandles({ make, ...options }: TrafficOptions): Promise<void> {
  return checkTraffic({
    ...options,
    make,
    handles: async ({ store, second }) => (second === undefined ? [store] : [store, await second()]),
  })
}

/** The same steps show the same in both stores: the same jobs, in the same order, and the same gates. */
export function checkSameTraffic(
  options: TrafficOptions & { readonly reference: () => Promise<StoreHarness> },
): Promise<void> {
  const { make, reference, ...rest } = options
  return checkProperty(
    'the stores part',
    rest,
    (fc) => trafficStepsOf(fc, mostSteps),
    async (steps, at) => {
      const harnesses = [await reference(), await make()] as const
      try {
        const [one, other] = [new TrafficRun(harnesses[0]), new TrafficRun(harnesses[1])]
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

async function stepAndCheck(run: TrafficRun, step: TrafficStep): Promise<unknown> {
  return [await run.take(step), await run.checkGates()]
}

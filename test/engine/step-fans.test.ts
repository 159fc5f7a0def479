/** Children of several steps of one job, and what stays of how they ended. */
import { defineJob, type MillraceError, type Step } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { expect, test } from 'vitest'
import { signal, testMill } from './mill.js'

const times = defineJob({ name: 'times', run: (n: number) => n * 10 })
const never = defineJob({ name: 'never', run: (_: number, { step }) => step.waitFor('never') })

let declined = true
const pay = defineJob({
  name: 'pay',
  maxAttempts: 1,
  run(amount: number) {
    if (declined) throw new Error('declined')
    return amount
  },
})

test('a race between children of two steps is won by those that end first', async () => {
  const racing = defineJob({
    name: 'racing',
    run: (_: null, { step }) =>
      step.race([step.children('slow', never, [1]), step.children('fast', times, [1, 2])]),
  })
  const mill = testMill({ jobs: [times, never, racing] })
  const job = await mill.enqueue(racing, null)
  await mill.drain()
  expect(await job.result()).toEqual([10, 20])
})

test('children that lost a race hold nothing up', async () => {
  const late = defineJob({
    name: 'late',
    async run(_: null, { step }) {
      const won = await step.race([
        step.children('slow', never, [1]),
        step.sleep('1s').then(() => 'too slow'),
      ])
      return [won, await step.children('fast', times, [1])]
    },
  })
  const mill = testMill({ jobs: [times, never, late] })
  const job = await mill.enqueue(late, null)
  await mill.drain()
  await mill.advance('1s')
  expect(await job.result()).toEqual(['too slow', [10]])
})

test('a part goes on when its children have ended, whatever others wait for', async () => {
  const log: string[] = []
  const both = defineJob({
    name: 'both',
    run: (_: null, { step }) =>
      step.all([
        async () => {
          const given = await step.children('fast', times, [1])
          await step('after', () => void log.push(`fast gave ${given}`))
        },
        () => step.children('slow', never, [1]),
      ]),
  })
  const mill = testMill({ jobs: [times, never, both] })
  const job = await mill.enqueue(both, null)
  await mill.drain()
  expect(log).toEqual(['fast gave 10'])
  await mill.signal('never', 'now')
  await mill.drain()
  expect(await job.result()).toEqual([undefined, ['now']])
})

test('a dead job is replayed while children of its steps still run', async () => {
  let down = true
  const hasty = defineJob({
    name: 'hasty',
    maxAttempts: 1,
    async run(_: null, { step }) {
      await step.race([step.children('slow', never, [1]), step.sleep('1s')])
      if (down) throw new Error('down')
      return 'done'
    },
  })
  const mill = testMill({ jobs: [never, hasty] })
  const job = await mill.enqueue(hasty, null)
  await mill.drain()
  await mill.advance('1s')
  expect(await job.state()).toBe('dead')
  down = false
  await mill.dead.retry(job.id)
  await mill.drain()
  expect(await job.result()).toBe('done')
})

/** Ships what was paid, and cancels what was not; an hour passes before it ends. */
function orderWith(log: string[], paid: (step: Step) => Promise<boolean>) {
  return defineJob({
    name: 'order',
    async run(_: null, { step }) {
      const isPaid = await paid(step)
      await step(isPaid ? 'ship' : 'cancel', () => void log.push(isPaid ? 'shipped' : 'cancelled'))
      await step.sleep('1h')
      return isPaid
    },
  })
}

async function expectShipped(mill: TestMill, order: ReturnType<typeof orderWith>, log: readonly string[]) {
  const job = await mill.enqueue(order, null)
  await mill.drain()
  expect(log).toEqual(['shipped'])
  await mill.advance('1h')
  expect(await job.result()).toBe(true)
}

const waysToSee: Record<string, (step: Step) => Promise<boolean>> = {
  'was seen': async (step) => {
    const [child] = await step.children('pay', pay, [1], { onFailure: 'continue' })
    return child?.state === 'completed'
  },
  'was left out': async (step) =>
    (await step.children('pay', pay, [1], { onFailure: 'ignore' })).length === 1,
  'was caught': async (step) => {
    try {
      return (await step.children('pay', pay, [1])).length === 1
    } catch {
      return false
    }
  },
  'was caught from a race': async (step) => {
    try {
      return (await step.race([step.children('pay', pay, [1]), step.sleep('2h')])) !== undefined
    } catch {
      return false
    }
  },
  'was caught from parts': async (step) => {
    try {
      return (await step.all([() => step.children('pay', pay, [1])])).length === 1
    } catch {
      return false
    }
  },
}

test.each(Object.keys(waysToSee))('a failure that %s stays, whatever is replayed', async (way) => {
  declined = true
  const log: string[] = []
  const order = orderWith(log, waysToSee[way] as (step: Step) => Promise<boolean>)
  const mill = testMill({ jobs: [pay, order] })
  const job = await mill.enqueue(order, null)
  await mill.drain()
  expect(log).toEqual(['cancelled'])
  declined = false
  expect(await mill.dead.retryAll()).toMatchObject({ retried: 1 })
  await mill.drain()
  await mill.advance('1h')
  expect(await job.result()).toBe(false)
  expect(log).toEqual(['cancelled'])
})

test('a child that is replayed before its failure was answered is waited for instead', async () => {
  declined = true
  const log: string[] = []
  const order = orderWith(log, async (step) => {
    try {
      return (await step.children('pay', pay, [1])).length === 1
    } catch (error) {
      declined = false
      await mill.dead.retry((error as MillraceError).value as string)
      return false
    }
  })
  const mill = testMill({ jobs: [pay, order] })
  await expectShipped(mill, order, log)
})

test('who died of it waits for it again, also where other parts took steps meanwhile', async () => {
  declined = true
  const busy = defineJob({
    name: 'busy',
    run: (_: null, { step }) =>
      step.all([
        step.children('pay', pay, [1]),
        async () => {
          await step.children('fast', times, [1])
          await step.children('faster', times, [2])
          return step('last', () => 'last')
        },
      ]),
  })
  const mill = testMill({ jobs: [pay, times, busy] })
  const job = await mill.enqueue(busy, null)
  await mill.drain()
  expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'CHILD_FAILED' } })
  declined = false
  await mill.dead.retry((await job.get())?.failure?.child as string)
  await mill.drain()
  expect(await job.result()).toEqual([[1], 'last'])
})

test('a child that is replayed and completes before its failure was answered is read again', async () => {
  declined = true
  const log: string[] = []
  const order = orderWith(log, async (step) => {
    try {
      return (await step.children('pay', pay, [1])).length === 1
    } catch (error) {
      const child = (error as MillraceError).value as string
      declined = false
      await mill.dead.retry(child)
      await mill.job(child).result()
      return false
    }
  })
  const mill = testMill({ jobs: [pay, order], worker: { concurrency: 5 } })
  await expectShipped(mill, order, log)
})

test('who took a step after the failure and then died of it stays dead', async () => {
  declined = true
  const log: string[] = []
  const shop = defineJob({
    name: 'shop',
    async run(_: null, { step }) {
      try {
        await step.children('pay', pay, [1])
      } catch (error) {
        await step('release', () => void log.push('released'))
        throw error
      }
      await step('ship', () => void log.push('shipped'))
    },
  })
  const mill = testMill({ jobs: [pay, shop] })
  const job = await mill.enqueue(shop, null)
  await mill.drain()
  declined = false
  await mill.dead.retryAll()
  await mill.drain()
  expect(log).toEqual(['released'])
  expect(await job.get()).toMatchObject({ state: 'dead', failure: { code: 'CHILD_FAILED' } })
})

test('a step that is taken after a failure is let finish, whatever the handler does beside it', async () => {
  declined = true
  const { promise, give } = signal()
  let ran = 0
  const hasty = defineJob({
    name: 'hasty',
    maxAttempts: 3,
    backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' },
    async run(_: null, { step, attempt }) {
      await step.children('pay', pay, [1]).catch(() => {})
      const note = step('note', async () => {
        ran++
        await promise
      })
      if (attempt === 1) {
        give()
        throw new Error('it fails')
      }
      await note
    },
  })
  const mill = testMill({ jobs: [pay, hasty] })
  const job = await mill.enqueue(hasty, null)
  await mill.drain({ later: true })
  expect(await job.state()).toBe('completed')
  expect(ran).toBe(1)
})

test('what a flow gave a job is told apart from what its steps add', async () => {
  const gather = defineJob({
    name: 'gather',
    async run(_: null, { step, results, resultOf, children }) {
      await step.children('more', times, [10, 20])
      const seen: unknown[] = []
      for await (const { result } of children()) seen.push(result)
      return [await results(times), await resultOf(times), seen]
    },
  })
  const mill = testMill({ jobs: [times, gather] })
  const flow = await mill.flow(
    { job: gather, input: null, children: [{ job: times, input: 1 }] },
    { id: 'z' },
  )
  await mill.drain()
  expect(await flow.result()).toEqual([[10], 10, [10]])
})

test('a child that lost a race does not hold up what undoes a flow', async () => {
  const log: string[] = []
  const charge = defineJob({ name: 'charge', run: (_: null) => void log.push('charged') })
  const refund = defineJob({
    name: 'refund',
    run: (_: { readonly input: null; readonly result: undefined }) => void log.push('refunded'),
  })
  const ship = defineJob({
    name: 'ship',
    maxAttempts: 1,
    async run(_: null, { step }) {
      await step.race([step.children('quotes', never, [1]), step.sleep('1m')])
      throw new Error('nobody ships')
    },
  })
  const order = defineJob({ name: 'order', run: (_: null) => void log.push('done') })
  const mill = testMill({ jobs: [charge, refund, ship, never, order] })
  const flow = await mill.chain([
    { job: charge, input: null, compensate: refund },
    { job: ship, input: null, onFailure: 'compensate' },
    { job: order, input: null },
  ])
  await mill.drain()
  await mill.advance('2m')
  expect(log).toEqual(['charged', 'refunded'])
  expect(await flow.state()).toBe('dead')
})

test.each(['fail', 'continue'] as const)(
  'who died in words of its own (%s) finds what a replay has changed',
  async (onFailure) => {
    declined = true
    const wrapping = defineJob({
      name: 'wrapping',
      maxAttempts: 1,
      async run(_: null, { step }) {
        if (onFailure === 'continue') {
          const all = await step.children('pay', pay, [1], { onFailure })
          if (all.some(({ state }) => state === 'dead')) throw new Error('the order cannot be paid')
          return all.map(({ result }) => result)
        }
        try {
          return await step.children('pay', pay, [1])
        } catch (cause) {
          throw new Error('the order cannot be paid', { cause })
        }
      },
    })
    const mill = testMill({ jobs: [pay, wrapping] })
    const job = await mill.enqueue(wrapping, null)
    await mill.drain()
    expect(await job.get()).toMatchObject({ state: 'dead', failure: { message: 'the order cannot be paid' } })
    declined = false
    await mill.dead.retryAll()
    await mill.drain()
    expect(await job.result()).toEqual([1])
  },
)

test('all that failed of one step can be replayed one after the other', async () => {
  declined = true
  const three = defineJob({
    name: 'three',
    run: (_: null, { step }) => step.children('pay', pay, [1, 2, 3]),
  })
  const mill = testMill({ jobs: [pay, three] })
  const job = await mill.enqueue(three, null)
  await mill.drain()
  expect(await job.state()).toBe('dead')
  declined = false
  const { jobs } = await mill.dead.list({ name: 'pay' })
  for (const { id } of [...jobs].reverse()) {
    await mill.dead.retry(id)
    await mill.drain()
  }
  expect(await job.result()).toEqual([1, 2, 3])
})

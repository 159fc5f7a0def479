/** Children of several steps of one job, and what stays of how they ended. */
import { defineJob, type MillraceError, type Step } from 'millrace'
import { expect, test } from 'vitest'
import { testMill } from './mill.js'

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
  const job = await mill.enqueue(order, null)
  await mill.drain()
  expect(log).toEqual(['shipped'])
  await mill.advance('1h')
  expect(await job.result()).toBe(true)
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

test('who died in words of its own finds what a replay has changed', async () => {
  declined = true
  const wrapping = defineJob({
    name: 'wrapping',
    maxAttempts: 1,
    async run(_: null, { step }) {
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
})

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

/** Children belong to one life of a job: one that begins afresh, or has its id again, gets its own. */
import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { testMill } from './mill.js'

let factor = 1
const times = defineJob({ name: 'times', run: (n: number) => n * factor })

test.each(['completed', 'dead'] as const)('a %s job that is replayed afresh adds them again', async (end) => {
  factor = 1
  const sum = defineJob({
    name: 'sum',
    maxAttempts: 1,
    async run(fails: boolean, { step }) {
      const given = await step.children('parts', times, [1, 2])
      if (fails && factor === 1) throw new Error('it fails')
      return given
    },
  })
  const mill = testMill({ jobs: [times, sum] })
  const job = await mill.enqueue(sum, end === 'dead')
  await mill.drain()
  expect(await job.state()).toBe(end)
  factor = 10
  await mill.dead.retry(job.id, end === 'dead' ? { fresh: true } : {})
  await mill.drain()
  expect(await job.result()).toEqual([10, 20])
})

test('a replay that is not afresh has what they gave', async () => {
  factor = 1
  const sum = defineJob({
    name: 'sum',
    maxAttempts: 1,
    async run(_: null, { step }) {
      const given = await step.children('parts', times, [1, 2])
      if (factor === 1) throw new Error('it fails')
      return given
    },
  })
  const mill = testMill({ jobs: [times, sum] })
  const job = await mill.enqueue(sum, null)
  await mill.drain()
  factor = 10
  await mill.dead.retry(job.id)
  await mill.drain()
  expect(await job.result()).toEqual([1, 2])
})

test('a job whose id was used before, and jobs whose ids look alike, have their own', async () => {
  factor = 1
  const given: number[][] = []
  const sum = defineJob({
    name: 'sum',
    retain: 0,
    async run({ name, inputs }: { name: string; inputs: number[] }, { step }) {
      given.push(await step.children(name, times, inputs))
    },
  })
  const mill = testMill({ jobs: [times, sum] })
  for (const inputs of [[1, 2], [3]]) {
    await mill.enqueue(sum, { name: 'parts', inputs }, { id: 'same' })
    await mill.drain()
  }
  expect(given.splice(0)).toEqual([[1, 2], [3]])
  await mill.enqueue(sum, { name: 'x.y', inputs: [4] }, { id: 'o' })
  await mill.enqueue(sum, { name: 'y', inputs: [5] }, { id: 'o.x' })
  await mill.drain()
  expect(given.sort()).toEqual([[4], [5]])
})

test('a newer job cancels one that waits for its children, and waits for its own', async () => {
  factor = 1
  const sum = defineJob({
    name: 'sum',
    dedupe: { key: () => 'one', mode: 'replace' },
    run: (inputs: number[], { step }) => step.children('parts', times, inputs, { queue: 'slow' }),
  })
  const mill = testMill({ jobs: [times, sum], worker: { queues: ['default', 'slow'] } })
  await mill.queue('slow').pause()
  const first = await mill.enqueue(sum, [1, 2])
  await mill.drain()
  expect(await first.state()).toBe('blocked')
  const second = await mill.enqueue(sum, [3])
  expect(second.id).not.toBe(first.id)
  expect(await first.state()).toBe('cancelled')
  await mill.queue('slow').resume()
  await mill.drain()
  expect(await second.result()).toEqual([3])
})

test('children may have children of their own, to any depth', async () => {
  const depth = 20
  const nest = defineJob({
    name: 'nest',
    async run(left: number, { step }): Promise<number> {
      if (left === 0) return 0
      const [below] = await step.children('the-next-level-below-this-one', nest, [left - 1])
      return 1 + (below as number)
    },
  })
  const mill = testMill({ jobs: [nest] })
  const job = await mill.enqueue(nest, depth)
  await mill.drain()
  expect(await job.result()).toBe(depth)
})

test('a deploy that makes another step of one is told', async () => {
  let isNew = false
  const parent = defineJob({
    name: 'parent',
    maxAttempts: 1,
    async run(_: null, { step }) {
      if (isNew) return step.children('parts', times, [1])
      await step('parts', () => 'ch_1')
      await step.sleep('1h')
      return []
    },
  })
  const mill = testMill({ jobs: [times, parent] })
  const job = await mill.enqueue(parent, null)
  await mill.drain()
  isNew = true
  await mill.advance('1h')
  expect((await job.get())?.failure?.message).toMatch(/step 'parts' added no children in an earlier run/)
})

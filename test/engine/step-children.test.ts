import { defineJob, type Step } from 'millrace'
import { runJob } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { makeFragile, square } from './flow-jobs.js'
import { storeOf, testMill, vanish } from './mill.js'

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

describe('step.children', () => {
  test('the job waits for the jobs that it adds, and gets their results in order', async () => {
    let runs = 0
    const sum = defineJob({
      name: 'sum',
      async run(inputs: number[], { step }) {
        runs++
        const squares = await step.children('squares', square, inputs)
        return squares
      },
    })
    const mill = testMill({ jobs: [square, sum] })
    const job = await mill.enqueue(sum, [3, 1, 2])
    await mill.drain()
    expect(await job.result()).toEqual([9, 1, 4])
    expect(runs).toBe(2)
    expect((await job.get())?.attempt).toBe(1)
  })

  test('thousands of them are added in batches, once, also by a run that begins anew', async () => {
    let lost = true
    const sum = defineJob({
      name: 'sum',
      async run(count: number, { step }) {
        function* inputs() {
          for (let i = 0; i < count; i++) {
            if (lost && i === 1_200) {
              lost = false
              throw new Error('the source failed')
            }
            yield i
          }
        }
        const squares = await step.children('squares', square, inputs(), { retain: 0 })
        return squares.length
      },
    })
    const mill = testMill({ jobs: [square, sum], worker: { concurrency: 50 } })
    const job = await mill.enqueue(sum, 2_000)
    await mill.drain({ later: true })
    expect(await job.result()).toBe(2_000)
    const { kinds } = await storeOf(mill).counts()
    expect(kinds.find(({ name }) => name === 'square')?.totals.completed).toBe(2_000)
  })

  test('several steps with children, one after the other and side by side', async () => {
    const sum = defineJob({
      name: 'sum',
      async run(_: null, { step }) {
        const first = await step.children('first', square, [1, 2])
        const [a, b] = await step.all([step.children('a', square, [3]), step.children('a.b', square, [4, 5])])
        await step.sleep('1h')
        return [first, a, b, await step.children('first', square, [6])]
      },
    })
    const mill = testMill({ jobs: [square, sum] })
    const job = await mill.enqueue(sum, null)
    await mill.drain()
    expect(await job.state()).toBe('blocked')
    await mill.advance('1h')
    expect(await job.result()).toEqual([[1, 4], [9], [16, 25], [36]])
  })

  test('none to add is no wait', async () => {
    const sum = defineJob({ name: 'sum', run: (_: null, { step }) => step.children('none', square, []) })
    const mill = testMill({ jobs: [square, sum] })
    const job = await mill.enqueue(sum, null)
    await mill.drain()
    expect(await job.result()).toEqual([])
  })

  test('a child that dies fails the job for good; replayed, the job goes on', async () => {
    const { fragile, mend } = makeFragile()
    const parent = defineJob({
      name: 'parent',
      run: (_: null, { step }) => step.children('parts', fragile, [null]),
    })
    const mill = testMill({ jobs: [fragile, parent] })
    const job = await mill.enqueue(parent, null)
    await mill.drain({ later: true })
    expect((await job.get())?.failure).toMatchObject({ code: 'CHILD_FAILED' })
    mend()
    const [child] = await mill.enqueued(fragile)
    await mill.dead.retry(child?.id as string)
    expect(await job.state()).toBe('blocked')
    await mill.drain()
    expect(await job.result()).toEqual(['mended'])
  })

  test('continue gives all children with their states, ignore the results of the others', async () => {
    const parent = defineJob({
      name: 'parent',
      async run(_: null, { step }) {
        const all = await step.children('all', square, [2, -1], { onFailure: 'continue' })
        const some = await step.children('some', square, [3, -1], { onFailure: 'ignore' })
        return { all: all.map(({ state, result }) => [state, result ?? null]), some }
      },
    })
    const mill = testMill({ jobs: [square, parent] })
    const job = await mill.enqueue(parent, null)
    await mill.drain()
    expect(await job.result()).toEqual({
      all: [
        ['completed', 4],
        ['dead', null],
      ],
      some: [9],
    })
  })

  test('a cancel of the waiting job takes its children along', async () => {
    const parent = defineJob({
      name: 'parent',
      run: (_: null, { step }) => step.children('parts', square, range(3), { queue: 'elsewhere' }),
    })
    const mill = testMill({ jobs: [square, parent] })
    const job = await mill.enqueue(parent, null)
    await mill.drain()
    expect(await job.cancel()).toBe('cancelled')
    expect((await mill.stats()).states).toMatchObject({ cancelled: 4, pending: 0 })
  })

  test('a worker that is lost among its children leaves the job to another', async () => {
    const parent = defineJob({
      name: 'parent',
      run: (_: null, { step }) => step.children('parts', square, range(3)),
    })
    const mill = testMill({ jobs: [square, parent] })
    const job = await mill.enqueue(parent, null)
    const [id] = await vanish(mill, 'ghost')
    expect(id).toBe(job.id)
    await mill.clock.advance(31_000)
    await mill.drain()
    expect(await job.result()).toEqual([0, 1, 4])
  })

  test('what cannot be is refused', async () => {
    const keyed = defineJob({ name: 'keyed', dedupe: { key: (n: number) => `${n}` }, run: (_: number) => {} })
    const attempts: ((step: Step) => Promise<unknown>)[] = [
      (step) => step.children('a', keyed, [1]),
      (step) => step.children('b', 5 as never, [1]),
      (step) => step.children('c', square, [1], { onFailure: 'panic' } as never),
      (step) => step.children('d', square, [1], { delay: 5 } as never),
    ]
    const parent = defineJob({
      name: 'parent',
      async run(_: null, { step }) {
        const errors = []
        for (const attempt of attempts)
          errors.push(await attempt(step).catch((error: Error) => error.message.slice(0, 30)))
        return errors
      },
    })
    const mill = testMill({ jobs: [parent, keyed, square] })
    const job = await mill.enqueue(parent, null)
    await mill.drain()
    expect(await job.result()).toEqual([
      "job 'keyed' has a dedupe key, ",
      'job is 5; expected a definitio',
      'onFailure is "panic"; expected',
      "step.children has no option 'd",
    ])
  })
})

test('runJob shows what a handler adds and lets it see children', async () => {
  const parent = defineJob({
    name: 'parent',
    async run(inputs: number[], { step, results }) {
      const given = await results(square)
      const squares = await step.children('squares', square, inputs)
      return [given, squares]
    },
  })
  const waits = await runJob(parent, [1, 2], { jobId: 'p' })
  expect(waits.state).toBe('blocked')
  expect(waits.enqueued).toEqual([
    { id: expect.any(String), name: 'square', input: 1 },
    { id: expect.any(String), name: 'square', input: 2 },
  ])
  const child = (result: number) => ({ job: square, step: 'squares', result })
  const given = { job: square, result: 9 }
  const ended = await runJob(parent, [1, 2], { children: [child(1), given, child(4)] })
  expect(ended.result).toEqual([[9], [1, 4]])
})

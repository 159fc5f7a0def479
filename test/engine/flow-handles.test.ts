import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

const square = defineJob({
  name: 'square',
  maxAttempts: 1,
  run(n: number) {
    if (n < 0) throw new Error(`${n} is below zero`)
    return n * n
  },
})
const sum = defineJob({
  name: 'sum',
  async run(_: null, { results }) {
    return (await results(square)).reduce((total, n) => total + n, 0)
  },
})

describe('a flow by its id', () => {
  test('shows its graph, gives its result and is cancelled like any other', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const children = [1, 2].map((input) => ({ job: square, input }))
    await mill.flow({ job: sum, input: null, children }, { id: 'total' })
    const flow = mill.job('total', sum)
    expect(flow.status).toBeUndefined()
    expect((await flow.graph()).nodes.map(({ id, state }) => [id, state])).toEqual([
      ['total', 'blocked'],
      ['total.0000001', 'pending'],
      ['total.0000002', 'pending'],
    ])
    await mill.drain()
    const result: number = await flow.result()
    expect(result).toBe(5)

    await mill.flow({ job: sum, input: null, children }, { id: 'unwanted' })
    expect(await mill.job('unwanted').cancel()).toBe('cancelled')
    await mill.drain()
    expect((await mill.job('unwanted').graph()).nodes.map(({ state }) => state)).toEqual(
      Array(3).fill('cancelled'),
    )
  })

  test('is also that of a chain, a batch, and a job that added children itself', async () => {
    const fans = defineJob({ name: 'fans', run: (_: null, { step }) => step.children('parts', square, [3]) })
    const mill = testMill({ jobs: [square, fans] })
    await mill.chain(
      [
        { job: square, input: 1 },
        { job: square, input: 2 },
      ],
      { id: 'chain' },
    )
    await (await mill.batch({ id: 'batch' })).enqueue(square, 1)
    await mill.enqueue(fans, null, { id: 'fans' })
    await mill.drain()
    const sizeOf = async (id: string) => (await mill.job(id).graph()).nodes.length
    expect(await Promise.all(['chain', 'batch', 'fans'].map(sizeOf))).toEqual([2, 2, 2])
  })

  test('that nobody knows says so', async () => {
    const mill = testMill({ jobs: [square] })
    await expect(mill.job('nobody').graph()).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    await expect(mill.job('nobody').graph({ limit: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('a snapshot shows the place of its job', () => {
  test('in a graph: its flow, its name, who waits for it, and how many it waits for', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const flow = await mill.flow(
      {
        nodes: {
          good: { job: square, input: 2 },
          bad: { job: square, input: -1 },
          last: { job: sum, input: null, after: ['good', 'bad'] },
        },
      },
      { id: 'f' },
    )
    const last = { flow: 'f', node: 'last', parents: [], children: 2, open: false }
    expect((await flow.get())?.family).toEqual({ ...last, left: 2, failed: 0 })
    const { nodes } = await flow.graph()
    const good = nodes.find(({ node }) => node === 'good')?.id as string
    const leaf = { flow: 'f', parents: ['f'], children: 0, left: 0, failed: 0, open: false }
    expect((await mill.job(good).get())?.family).toEqual({ ...leaf, node: 'good' })
    await mill.drain()
    expect((await flow.get())?.family).toEqual({ ...last, left: 0, failed: 1 })
    const { jobs } = await mill.dead.list({ name: 'square' })
    expect(jobs.map(({ family }) => family)).toEqual([{ ...leaf, node: 'bad' }])
  })

  test('in a batch, while it is open and after', async () => {
    const mill = testMill({ jobs: [square] })
    const batch = await mill.batch({ id: 'b' })
    const job = await batch.enqueue(square, 1)
    const family = { flow: 'b', node: undefined, parents: [], children: 1, left: 1, failed: 0, open: true }
    expect((await batch.get())?.family).toEqual(family)
    expect((await job.get())?.family).toMatchObject({ flow: 'b', parents: ['b'] })
    await batch.seal()
    await mill.drain()
    expect((await batch.get())?.family).toEqual({ ...family, left: 0, open: false })
  })

  test('a job on its own has none', async () => {
    const mill = testMill({ jobs: [square] })
    const job = await mill.enqueue(square, 1)
    expect((await job.get())?.family).toBeUndefined()
  })
})

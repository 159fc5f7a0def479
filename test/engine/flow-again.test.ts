/** A flow that is added once more with its id. */
import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { testMill } from './mill.js'

const part = defineJob({ name: 'part', run: (n: number) => n * n })
const sums: number[][] = []
const sum = defineJob({
  name: 'sum',
  async run(_: null, { results }) {
    const all = await results(part)
    sums.push(all)
    return all
  },
})

test.each([2, 700])(
  'when the job that it leads to is kept no more, it runs with all of its %i children, those still there among them',
  async (count) => {
    sums.length = 0
    const children = Array.from({ length: count }, (_, i) => ({ job: part, input: i }))
    const spec = { job: sum, input: null, options: { retain: 0 }, children }
    const mill = testMill({ jobs: [part, sum], worker: { concurrency: 50 } })
    const squares = children.map(({ input }) => input * input)
    for (let round = 0; round < 2; round++) {
      const flow = await mill.flow(spec, { id: 'export' })
      expect(flow.status).toBe('inserted')
      await mill.drain()
      expect(await flow.get()).toBeUndefined()
      expect(sums.splice(0)).toEqual([squares])
    }
    expect((await mill.stats()).states).toMatchObject({ completed: count })
  },
)

test('an error on the way does not cancel the flow that is there', async () => {
  let limit = Number.POSITIVE_INFINITY
  const checked = defineJob({
    name: 'checked',
    input: z.number().refine((n) => n < limit),
    run: (n) => n,
  })
  const mill = testMill({ jobs: [checked, sum], worker: { concurrency: 50 } })
  const children = Array.from({ length: 700 }, (_, i) => ({ job: checked, input: i }))
  const add = () => mill.flow({ job: sum, input: null, children }, { id: 'export' })
  const flow = await add()
  limit = 600
  await expect(add()).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  limit = Number.POSITIVE_INFINITY
  await mill.drain()
  expect(await flow.get()).toMatchObject({ state: 'completed' })
  expect((await mill.stats()).states).toMatchObject({ completed: 701, cancelled: 0 })
})

test('events say which of its jobs were there', async () => {
  const mill = testMill({ jobs: [part, sum] })
  const told: [string, boolean][] = []
  mill.on('enqueued', ({ id, duplicate }) => told.push([id, duplicate]))
  const add = () =>
    mill.flow({ job: sum, input: null, children: [{ job: part, input: 2 }] }, { id: 'export' })
  const ids = ['export', 'export.0000001']
  for (const duplicate of [false, true]) {
    await add()
    expect(told.splice(0)).toEqual(ids.map((id) => [id, duplicate]))
  }
  await mill.drain()
  expect((await add()).status).toBe('duplicate')
  expect(told).toEqual(ids.map((id) => [id, true]))
})

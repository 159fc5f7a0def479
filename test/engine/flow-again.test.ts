/** A flow that is added once more with its id, when the job that it leads to is kept no more. */
import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
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
  'runs with all of its %i children, those that are still there among them',
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

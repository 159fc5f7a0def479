/** A flow that is added once more with its id. */
import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { storeOf, testMill } from './mill.js'

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
  'is refused while some of its %i children are kept, and runs when they are gone',
  async (count) => {
    sums.length = 0
    const children = Array.from({ length: count }, (_, i) => ({ job: part, input: i }))
    const spec = { job: sum, input: null, options: { retain: 0 }, children }
    const mill = testMill({ jobs: [part, sum], worker: { concurrency: 50 } })
    await mill.flow(spec, { id: 'export' })
    await mill.drain()
    const squares = children.map(({ input }) => input * input)
    expect(sums.splice(0)).toEqual([squares])

    // Only the last one is left, which comes in the second write of the large flow.
    const kept = await mill.enqueued(part, undefined)
    const ids = kept.map(({ id }) => id).sort()
    await storeOf(mill).operate({ ids: ids.slice(0, -1) }, { do: 'remove' })
    await expect(mill.flow(spec, { id: 'export' })).rejects.toMatchObject({
      code: 'FLOW_TAKEN',
      message: expect.stringContaining("a flow 'export' was there before"),
    })
    await mill.drain()
    expect(sums).toEqual([])

    await storeOf(mill).operate({ ids: (await mill.enqueued(part)).map(({ id }) => id) }, { do: 'remove' })
    await storeOf(mill).operate({ ids: ['export'] }, { do: 'remove' })
    const flow = await mill.flow(spec, { id: 'export' })
    expect(flow.status).toBe('inserted')
    await mill.drain()
    expect(sums).toEqual([squares])
  },
)

test('a job that has the id of a new member is no part of the batch', async () => {
  const mill = testMill({ jobs: [part] })
  await mill.enqueue(part, 1, { id: 'mine' })
  const batch = await mill.batch({})
  await expect(batch.enqueue(part, 2, { id: 'mine' })).rejects.toMatchObject({ code: 'FLOW_TAKEN' })
  await batch.enqueue(part, 2, { id: 'other' })
  expect((await batch.enqueue(part, 2, { id: 'other' })).status).toBe('duplicate')
})

test('an error on the way does not cancel the flow that is there', async () => {
  let limit = Number.POSITIVE_INFINITY
  const checked = defineJob({
    name: 'checked',
    input: z.number().refine((n) => n < limit),
    run: (n) => n,
  })
  const mill = testMill({ jobs: [checked, sum], worker: { concurrency: 50 } })
  const children = Array.from({ length: 1_400 }, (_, i) => ({ job: checked, input: i }))
  const add = () => mill.flow({ job: sum, input: null, children }, { id: 'export' })
  const flow = await add()
  limit = 1_200
  await expect(add()).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  limit = Number.POSITIVE_INFINITY
  await mill.drain()
  expect(await flow.get()).toMatchObject({ state: 'completed' })
  expect((await mill.stats()).states).toMatchObject({ completed: 1_401, cancelled: 0 })
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

test('is refused where its id is that of a batch, a job or a part of another flow, and leaves that as it is', async () => {
  const stepper = defineJob({
    name: 'stepper',
    run: (_: null, { step }) => step.children('c', part, [1]),
  })
  const mill = testMill({ jobs: [part, sum, stepper] })
  const spec = { job: sum, input: null, children: [{ job: part, input: 1 }] }
  await mill.enqueue(stepper, null, { id: 'stepper' })
  await mill.drain()
  const batch = await mill.batch({ id: 'batch' })
  await mill.enqueue(part, 1, { id: 'job' })
  await mill.flow(spec, { id: 'flow' })
  for (const id of ['batch', 'job', 'stepper', 'flow.0000001']) {
    await expect(mill.flow(spec, { id })).rejects.toMatchObject({
      code: 'FLOW_TAKEN',
      field: 'id',
      value: id,
    })
    const chain = mill.chain(
      [
        { job: part, input: 1 },
        { job: sum, input: null },
      ],
      { id },
    )
    await expect(chain).rejects.toMatchObject({ code: 'FLOW_TAKEN' })
  }
  expect(await batch.progress()).toMatchObject({ jobs: 0, open: true })
  for (const id of ['job', 'flow'])
    await expect(mill.batch({ id })).rejects.toMatchObject({ code: 'FLOW_TAKEN', value: id })
  expect((await mill.batch({ id: 'batch' })).status).toBe('duplicate')
})

test.each([
  ['with children', { children: [{ job: part, input: 1 }] }],
  ['without', {}],
])('is a duplicate, waiting or over: %s', async (_, children) => {
  const mill = testMill({ jobs: [part, sum] })
  const add = () => mill.flow({ job: sum, input: null, ...children }, { id: 'flow' })
  expect((await add()).status).toBe('inserted')
  expect((await add()).status).toBe('duplicate')
  await mill.drain()
  expect((await add()).status).toBe('duplicate')
})

import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { square, sum } from './flow-jobs.js'
import { testMill } from './mill.js'

test('jobs of a flow have no dedupe key', async () => {
  const keyed = defineJob({ name: 'keyed', dedupe: { key: (n: number) => `${n}` }, run: (_: number) => {} })
  const mill = testMill({ jobs: [keyed] })
  await expect(mill.chain([{ job: keyed, input: 1 }])).rejects.toThrow(/'keyed' has a dedupe key/)
  const undo = defineJob({
    name: 'undo',
    dedupe: { key: () => 'x' },
    run: (_: { input: number; result: number }) => {},
  })
  const link = { job: square, input: 1, compensate: undo }
  await expect(mill.chain([link])).rejects.toThrow(/'undo' has a dedupe key/)
  const wrong = { ...link, compensate: 'undo' as never }
  await expect(mill.chain([wrong])).rejects.toThrow(/compensate is "undo"; expected a definition/)
})

test('a full queue refuses a flow as a whole', async () => {
  const mill = testMill({
    jobs: [square, sum],
    queues: { default: { depth: { max: 2, overflow: 'shed' } } },
  })
  await mill.enqueueMany(square, [1, 2])
  const tree = { job: sum, input: null, children: [{ job: square, input: 1 }] } as const
  await expect(mill.flow(tree, { id: 'f' })).rejects.toMatchObject({ code: 'QUEUE_FULL' })
  expect(await mill.job('f').get()).toBeUndefined()
  await expect(mill.batch({ id: 'b' })).rejects.toMatchObject({ code: 'QUEUE_FULL' })
  await mill.drain()
  await expect(mill.flow(tree, { id: 'f' })).resolves.toMatchObject({ status: 'inserted' })
})

test('inline, a flow has run when it was added', async () => {
  const mill = testMill({ jobs: [square, sum], inline: true })
  const flow = await mill.flow({ job: sum, input: null, children: [{ job: square, input: 3 }] })
  expect(await flow.state()).toBe('completed')
  const chain = await mill.chain([{ job: square, input: 2 }])
  expect(await chain.state()).toBe('completed')
})

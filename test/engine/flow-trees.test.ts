import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { square, sum } from './flow-jobs.js'
import { storeOf, testMill } from './mill.js'

describe('a tree', () => {
  test('the parent runs after its children and reads their results in order', async () => {
    const list = defineJob({ name: 'list', run: (_: null, { results }) => results(square) })
    const mill = testMill({ jobs: [square, list] })
    const children = [3, 1, 2].map((input) => ({ job: square, input }))
    const flow = await mill.flow({ job: list, input: null, children })
    expect(await flow.state()).toBe('blocked')
    await mill.drain()
    expect(await flow.result()).toEqual([9, 1, 4])
  })

  test('children have children', async () => {
    const total = defineJob({
      name: 'total',
      run: async (_: null, { results }) => (await results(sum)).reduce((a, b) => a + b, 0),
    })
    const all = testMill({ jobs: [square, sum, total] })
    const branch = (...inputs: number[]) => ({
      job: sum,
      input: null,
      children: inputs.map((input) => ({ job: square, input })),
    })
    const flow = await all.flow({ job: total, input: null, children: [branch(1, 2), branch(3)] })
    await all.drain()
    expect(await flow.result()).toBe(14)
  })

  test('a parent reads children of several kinds, and each with its state', async () => {
    const shout = defineJob({ name: 'shout', run: (text: string) => text.toUpperCase() })
    const gather = defineJob({
      name: 'gather',
      async run(_: null, { children, resultOf }) {
        const seen = []
        for await (const child of children()) seen.push([child.name, child.state, child.result])
        return { seen, shout: await resultOf(shout) }
      },
    })
    const mill = testMill({ jobs: [square, shout, gather] })
    const flow = await mill.flow({
      job: gather,
      input: null,
      children: [
        { job: square, input: 2 },
        { job: shout, input: 'hey' },
      ],
    })
    await mill.drain()
    expect(await flow.result()).toEqual({
      seen: [
        ['square', 'completed', 4],
        ['shout', 'completed', 'HEY'],
      ],
      shout: 'HEY',
    })
  })

  test('results outlive children that are not kept', async () => {
    const gone = defineJob({ name: 'gone', retain: 0, run: (n: number) => n })
    const gather = defineJob({ name: 'gather', run: (_: null, { results }) => results(gone) })
    const mill = testMill({ jobs: [gone, gather] })
    const flow = await mill.flow({ job: gather, input: null, children: [{ job: gone, input: 7 }] })
    await mill.drain()
    expect(await flow.result()).toEqual([7])
    expect((await flow.graph()).nodes.map(({ state }) => state)).toEqual(['completed', 'completed'])
  })

  test('a large one is written in batches, and its parent waits for all of them', async () => {
    const mill = testMill({ jobs: [square, sum], worker: { concurrency: 100 } })
    function* children() {
      for (let i = 0; i < 2_345; i++) yield { job: square, input: 1 }
    }
    const flow = await mill.flow({ job: sum, input: null, children: children() })
    expect((await storeOf(mill).get([flow.id]))[0]?.family).toMatchObject({
      children: 2_345,
      waiting: 2_345,
      open: false,
    })
    await mill.drain()
    expect(await flow.result()).toBe(2_345)
  })

  test('a flow with the id of another is not added again, whatever became of that one', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const tree = { job: sum, input: null, children: [{ job: square, input: 2 }] } as const
    const first = await mill.flow(tree, { id: 'order-42' })
    const second = await mill.flow(tree, { id: 'order-42' })
    expect([first.status, second.status]).toEqual(['inserted', 'duplicate'])
    await mill.drain()
    expect(await second.result()).toBe(4)
    expect((await mill.flow(tree, { id: 'order-42' })).status).toBe('duplicate')
    await mill.assertEnqueued(square, undefined, 1)
  })

  test('what cannot be added as a whole is cancelled', async () => {
    const mill = testMill({ jobs: [square, sum] })
    function* children() {
      for (let i = 0; i < 1_400; i++) yield { job: square, input: 1 }
      throw new Error('the source ran dry')
    }
    await expect(mill.flow({ job: sum, input: null, children: children() }, { id: 'f' })).rejects.toThrow(
      'the source ran dry',
    )
    expect(await mill.job('f').state()).toBe('cancelled')
    await mill.drain()
    expect((await mill.stats()).totals.completed).toBe(0)
  })

  test('one whose process is lost while it is added dies when its patience is over', async () => {
    const mill = testMill({ jobs: [square, sum] })
    await mill.open()
    const flow = mill.flow(
      {
        job: sum,
        input: null,
        children: (function* () {
          for (let i = 0; i < 1_400; i++) yield { job: square, input: 1 }
          throw lost
        })(),
      },
      { id: 'f', patience: '1m' },
    )
    // The cancel that a failing process sends is lost with it.
    const store = storeOf(mill)
    const operate = store.operate.bind(store)
    store.operate = (selector, command) =>
      command.do === 'cancel' ? Promise.reject(lost) : operate(selector, command)
    mill.on('error', () => {})
    await expect(flow).rejects.toBe(lost)
    store.operate = operate
    await mill.drain()
    expect(await mill.job('f').state()).toBe('blocked')
    await mill.advance('2m')
    expect((await mill.job('f').get())?.failure?.code).toBe('FLOW_INCOMPLETE')
    await mill.dead.retry('f')
    await mill.drain()
    expect((await mill.job('f').get())?.failure?.code).toBe('FLOW_INCOMPLETE')
    await expect(
      mill.flow({ job: sum, input: null, children: [{ job: square, input: 1 }] }, { id: 'f' }),
    ).resolves.toMatchObject({ status: 'duplicate' })
  })
})

const lost = new Error('lost')

import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { square, sum } from './flow-jobs.js'
import { storeOf, testMill } from './mill.js'

describe('cancel', () => {
  test('goes down to all that only the cancelled job waited for', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const branch = { job: sum, input: null, children: [{ job: square, input: 1 }] } as const
    const flow = await mill.flow({ job: sum, input: null, children: [branch, branch] })
    expect(await flow.cancel('not wanted')).toBe('cancelled')
    const { nodes } = await flow.graph()
    expect(nodes.map(({ state }) => state)).toEqual([
      'cancelled',
      'cancelled',
      'cancelled',
      'cancelled',
      'cancelled',
    ])
    await mill.drain()
    expect((await mill.stats()).totals.completed).toBe(0)
  })

  test('reaches thousands of children, some at once and the rest by sweeps', async () => {
    const mill = testMill({ jobs: [square, sum] })
    await mill.queue('default').pause()
    const children = Array.from({ length: 2_500 }, () => ({ job: square, input: 1 }))
    const flow = await mill.flow({ job: sum, input: null, children })
    await flow.cancel()
    expect((await mill.stats()).states.cancelled).toBeLessThan(2_501)
    await mill.advance('5s')
    expect((await mill.stats()).states).toMatchObject({ cancelled: 2_501, pending: 0 })
  })

  test('spares what another job waits for', async () => {
    const job = defineJob({ name: 'note', run: (_: string) => {} })
    const mill = testMill({ jobs: [job] })
    const flow = await mill.flow({
      nodes: {
        shared: { job, input: '' },
        mine: { job, input: '' },
        a: { job, input: '', after: ['shared', 'mine'], onFailure: 'continue' },
        b: { job, input: '', after: ['shared'] },
      },
    })
    const stateOf = async (node: string) => (await flow.graph()).nodes.find((n) => n.node === node)
    await mill.job((await stateOf('a'))?.id ?? '').cancel()
    expect((await stateOf('mine'))?.state).toBe('cancelled')
    expect((await stateOf('shared'))?.state).toBe('pending')
    await mill.drain()
    expect((await stateOf('b'))?.state).toBe('completed')
    expect(await flow.state()).toBe('completed')
  })

  test('a parent all of whose failed children were cancelled is cancelled, not dead', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const flow = await mill.flow({ job: sum, input: null, children: [{ job: square, input: 1 }] })
    const child = (await flow.graph()).nodes[1]?.id ?? ''
    await mill.job(child).cancel()
    await mill.drain()
    expect((await flow.get())?.cancelReason).toMatch(/its child .* was cancelled/)
  })
})

test('a flow does not wait for a child that was removed', async () => {
  const mill = testMill({ jobs: [square, sum] })
  const tree = {
    job: sum,
    input: null,
    children: [{ job: square, input: 1, onFailure: 'continue' }],
  } as const
  const flow = await mill.flow(tree)
  const child = (await flow.graph()).nodes[1]?.id ?? ''
  await storeOf(mill).operate({ ids: [child] }, { do: 'remove' })
  await mill.drain()
  expect(await flow.result()).toBe(0)
})

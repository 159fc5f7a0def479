import { defineBatchJob, defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { makeFragile, square, sum } from './flow-jobs.js'
import { replay, storeOf, testMill } from './mill.js'

describe('a child that fails', () => {
  const look = defineJob({
    name: 'look',
    async run(_: null, { children }) {
      const seen = []
      for await (const { state, result, failure } of children())
        seen.push([state, result ?? failure?.message])
      return seen
    },
  })
  const pair = (onFailure: 'fail' | 'continue' | 'ignore') =>
    ({
      job: look,
      input: null,
      children: [
        { job: square, input: 3 },
        { job: square, input: -1, onFailure },
      ],
    }) as const

  test('fail: its parent dies of it, without being run', async () => {
    const mill = testMill({ jobs: [square, look] })
    const flow = await mill.flow(pair('fail'))
    await mill.drain()
    const failure = (await flow.get())?.failure
    expect(failure?.code).toBe('CHILD_FAILED')
    expect(failure?.message).toMatch(/'square'\) died: -1 is below zero; retry the child/)
  })

  test('continue: its parent runs and sees the failure', async () => {
    const mill = testMill({ jobs: [square, look] })
    const flow = await mill.flow(pair('continue'))
    await mill.drain()
    expect(await flow.result()).toEqual([
      ['completed', 9],
      ['dead', '-1 is below zero'],
    ])
  })

  test('ignore: its parent runs and sees nothing of it', async () => {
    const mill = testMill({ jobs: [square, look] })
    const flow = await mill.flow(pair('ignore'))
    await mill.drain()
    expect(await flow.result()).toEqual([['completed', 9]])
  })

  test('its parent waits for the others before it dies', async () => {
    const mill = testMill({ jobs: [square, sum] })
    const flow = await mill.flow({
      job: sum,
      input: null,
      children: [
        { job: square, input: -1 },
        { job: square, input: 2, options: { queue: 'slow' } },
      ],
    })
    await mill.drain()
    expect(await flow.state()).toBe('blocked')
    const slow = mill.worker({ queues: ['slow'] })
    await slow.start()
    await mill.advance('1s')
    await slow.stop()
    await mill.drain()
    expect(await flow.state()).toBe('dead')
  })

  test('fail: a parent whose handler takes many at once dies of it as well', async () => {
    const taken: number[] = []
    const many = defineBatchJob({ name: 'many', run: (inputs: number[]) => void taken.push(...inputs) })
    const mill = testMill({ jobs: [square, many] })
    const over = (input: number, child: number) =>
      mill.flow({ job: many, input, children: [{ job: square, input: child }] })
    const flows = [await over(1, 3), await over(2, -1), await over(3, 2)]
    await mill.drain()
    expect(await Promise.all(flows.map((flow) => flow.state()))).toEqual(['completed', 'dead', 'completed'])
    expect(taken.sort()).toEqual([1, 3])
  })

  test('a parent that is replayed dies of it again, until the child is replayed', async () => {
    const { fragile, mend } = makeFragile()
    const mill = testMill({ jobs: [fragile, look] })
    const flow = await mill.flow({ job: look, input: null, children: [{ job: fragile, input: null }] })
    await mill.drain()
    await mill.dead.retry(flow.id)
    await mill.drain()
    expect((await flow.get())?.failure?.code).toBe('CHILD_FAILED')
    mend()
    await mill.dead.retryAll()
    await mill.drain({ later: true })
    expect(await flow.result()).toEqual([['completed', 'mended']])
  })

  test('a child that is replayed after its parent was claimed is waited for', async () => {
    const { fragile, mend } = makeFragile()
    const mill = testMill({ jobs: [fragile, look] })
    const store = storeOf(mill)
    const links = store.links.bind(store)
    store.links = async (query) => {
      store.links = links
      mend()
      await mill.dead.retry('flow.0000001')
      return links(query)
    }
    const spec = { job: look, input: null, children: [{ job: fragile, input: null }] }
    const flow = await mill.flow(spec, { id: 'flow' })
    // Where the child is done before the parent is put back, that is put off for a moment.
    await mill.drain({ later: true })
    expect(await flow.result()).toEqual([['completed', 'mended']])
  })

  test('a child that is replayed while its parent sleeps is waited for, and read anew', async () => {
    const seen: unknown[] = []
    const sleepy = defineJob({
      name: 'sleepy',
      async run(_: null, { results, step }) {
        seen.push(await results(square))
        await step.sleep('1m')
      },
    })
    const mill = testMill({ jobs: [square, sleepy], worker: { queues: ['default', 'slow'] } })
    const children = [{ job: square, input: 3, options: { queue: 'slow' } }]
    const flow = await mill.flow({ job: sleepy, input: null, children }, { id: 'flow' })
    await mill.drain()
    await mill.queue('slow').pause()
    await replay(mill, 'flow.0000001')
    await mill.advance('2m')
    expect([await flow.state(), seen]).toEqual(['blocked', [[9]]])
    await mill.queue('slow').resume()
    await mill.drain()
    expect([await flow.state(), seen]).toEqual(['completed', [[9], [9]]])
  })

  test('a child that is replayed before its parent has run is waited for', async () => {
    const { fragile, mend } = makeFragile()
    const late = defineJob({ name: 'late', queue: 'late', run: (_: null, { results }) => results(fragile) })
    const mill = testMill({ jobs: [fragile, late] })
    await mill.queue('late').pause()
    const flow = await mill.flow({ job: late, input: null, children: [{ job: fragile, input: null }] })
    await mill.drain()
    expect(await flow.state()).toBe('pending')
    mend()
    await mill.dead.retryAll()
    expect(await flow.state()).toBe('blocked')
    await mill.drain({ later: true })
    await mill.queue('late').resume()
    await mill.drain()
    expect(await flow.result()).toEqual(['mended'])
  })
})

import { defineBatchJob, defineJob, isMillraceError, type LogLevel } from 'millrace'
import { describe, expect, test } from 'vitest'
import { storeOf, testMill } from './mill.js'

const square = defineJob({ name: 'square', maxAttempts: 1, run: (n: number) => attempt(n, () => n * n) })
const sum = defineJob({
  name: 'sum',
  async run(_: null, { results }) {
    return (await results(square)).reduce((total, n) => total + n, 0)
  },
})

/** Inputs below zero fail. */
function attempt<T>(n: number, work: () => T): T {
  if (n < 0) throw new Error(`${n} is below zero`)
  return work()
}

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
      for (let i = 0; i < 700; i++) yield { job: square, input: 1 }
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
          for (let i = 0; i < 700; i++) yield { job: square, input: 1 }
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

describe('a graph', () => {
  const note = (seen: string[]) => defineJob({ name: 'note', run: (text: string) => void seen.push(text) })

  test('each job runs after those that it names, and reads their results', async () => {
    const seen: string[] = []
    const fetch = defineJob({
      name: 'fetch',
      run(n: number) {
        seen.push('fetch')
        return n * 10
      },
    })
    const double = defineJob({
      name: 'double',
      async run(_: null, { resultOf }) {
        seen.push('double')
        return 2 * (await resultOf(fetch, 'source'))
      },
    })
    const mill = testMill({ jobs: [fetch, double, note(seen)] })
    const flow = await mill.flow({
      nodes: {
        last: { job: note(seen), input: 'last', after: ['twice', 'other'] },
        twice: { job: double, input: null, after: ['source'] },
        other: { job: note(seen), input: 'other', after: ['source'] },
        source: { job: fetch, input: 4 },
      },
    })
    await mill.drain()
    expect(await flow.state()).toBe('completed')
    expect(seen[0]).toBe('fetch')
    expect(seen.at(-1)).toBe('last')
    const graph = await flow.graph()
    const byNode = new Map(graph.nodes.map((node) => [node.node, node]))
    expect(byNode.get('twice')).toMatchObject({ state: 'completed', name: 'double' })
    expect(byNode.get('source')?.before).toHaveLength(2)
    expect(byNode.get('last')?.after).toHaveLength(2)
    expect(graph.more).toBe(false)
  })

  test('one with several ends is over when all of them are', async () => {
    const seen: string[] = []
    const job = note(seen)
    const mill = testMill({ jobs: [job] })
    const flow = await mill.flow({
      nodes: {
        a: { job, input: 'a' },
        b: { job, input: 'b', after: ['a'] },
        c: { job, input: 'c', after: ['a'] },
      },
    })
    await mill.drain()
    expect(await flow.state()).toBe('completed')
    expect(seen.sort()).toEqual(['a', 'b', 'c'])
  })

  test('circles, strangers and emptiness are refused before anything is written', async () => {
    const job = note([])
    const mill = testMill({ jobs: [job] })
    const refused: [unknown, RegExp][] = [
      [{ nodes: {} }, /at least one job/],
      [{ nodes: { a: { job, input: '', after: ['a'] } } }, /cannot wait for itself/],
      [{ nodes: { a: { job, input: '', after: ['b'] } } }, /one of the nodes: a/],
      [
        { nodes: { a: { job, input: '', after: ['b'] }, b: { job, input: '', after: ['a'] } } },
        /in a circle.*: a, b/,
      ],
      [{ nodes: { 'a b': { job, input: '' } } }, /nodes is "a b"/],
      [{ job, input: '', children: [] }, /flow.children is \[\]; expected at least one child/],
      [{ job, input: '', children: [{ job: 5, input: '' }] }, /flow.children\[0\].job is 5/],
      [{ job, input: '', onFailure: 'panic' }, /onFailure is "panic"; expected one of fail, continue/],
      [{ job, input: '', childrens: [] }, /did you mean 'children'/],
    ]
    for (const [flow, message] of refused) await expect(mill.flow(flow as never)).rejects.toThrow(message)
    await expect(mill.chain([] as never)).rejects.toThrow(/at least one job/)
    expect((await mill.stats()).totals.enqueued).toBe(0)
  })
})

describe('a chain', () => {
  test('runs in order; each reads the result of the one before', async () => {
    const first = defineJob({ name: 'first', run: (text: string) => `${text}1` })
    const second = defineJob({
      name: 'second',
      run: async (_: null, { resultOf }) => `${await resultOf(first)}2`,
    })
    const third = defineJob({
      name: 'third',
      run: async (_: null, { resultOf }) => `${await resultOf(second)}3`,
    })
    const mill = testMill({ jobs: [first, second, third] })
    const chain = await mill.chain([
      { job: first, input: 'a' },
      { job: second, input: null },
      { job: third, input: null },
    ])
    await mill.drain()
    expect(await chain.result()).toBe('a123')
  })

  test('what comes after a dead one dies of it, and lives again when that one is replayed', async () => {
    let broken = true
    const log: [LogLevel, string][] = []
    const first = defineJob({
      name: 'first',
      maxAttempts: 1,
      run: () => {
        if (broken) throw new Error('broken')
      },
    })
    const next = defineJob({ name: 'next', run: (text: string) => void log.push(['info', text]) })
    const mill = testMill({ jobs: [first, next] })
    const chain = await mill.chain([
      { job: first, input: null },
      { job: next, input: 'second' },
      { job: next, input: 'third' },
    ])
    await mill.drain()
    const error = await chain.result().catch((reason: unknown) => reason)
    expect(isMillraceError(error, 'JOB_DEAD')).toBe(true)
    expect((await chain.get())?.failure).toMatchObject({ code: 'CHILD_FAILED' })
    expect((await chain.graph()).nodes.map(({ state }) => state)).toEqual(['dead', 'dead', 'dead'])
    expect(log).toEqual([])

    broken = false
    const [root] = (await mill.dead.list({ name: 'first' })).jobs
    await mill.dead.retry(root?.id ?? '')
    expect((await chain.graph()).nodes.map(({ state }) => state)).toEqual(['blocked', 'blocked', 'pending'])
    await mill.drain()
    expect(await chain.state()).toBe('completed')
    expect(log.map(([, text]) => text)).toEqual(['second', 'third'])
    expect((await mill.stats()).states.dead).toBe(0)
  })
})

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
    let broken = true
    const fragile = defineJob({
      name: 'fragile',
      maxAttempts: 1,
      run() {
        if (broken) throw new Error('broken')
      },
    })
    const mill = testMill({ jobs: [fragile, look] })
    const flow = await mill.flow({ job: look, input: null, children: [{ job: fragile, input: null }] })
    await mill.drain()
    await mill.dead.retry(flow.id)
    await mill.drain()
    expect((await flow.get())?.failure?.code).toBe('CHILD_FAILED')
    broken = false
    await mill.dead.retryAll()
    await mill.drain({ later: true })
    expect(await flow.result()).toEqual([['completed', undefined]])
  })

  test('a child that is replayed before its parent has run is waited for', async () => {
    let broken = true
    const fragile = defineJob({
      name: 'fragile',
      maxAttempts: 1,
      run() {
        if (broken) throw new Error('broken')
        return 'mended'
      },
    })
    const late = defineJob({ name: 'late', queue: 'late', run: (_: null, { results }) => results(fragile) })
    const mill = testMill({ jobs: [fragile, late] })
    await mill.queue('late').pause()
    const flow = await mill.flow({ job: late, input: null, children: [{ job: fragile, input: null }] })
    await mill.drain()
    expect(await flow.state()).toBe('pending')
    broken = false
    await mill.dead.retryAll()
    expect(await flow.state()).toBe('blocked')
    await mill.drain({ later: true })
    await mill.queue('late').resume()
    await mill.drain()
    expect(await flow.result()).toEqual(['mended'])
  })

  test('compensate: chains undo what came before, also when the last one dies', async () => {
    for (const dies of [1, 2]) {
      const seen: string[] = []
      const undo = defineJob({
        name: 'undo',
        run: ({ input }: { input: number; result: number }) => void seen.push(`undo ${input}`),
      })
      const part = defineJob({
        name: 'part',
        maxAttempts: 1,
        run(n: number) {
          if (n === dies) throw new Error('declined')
          seen.push(`do ${n}`)
          return n
        },
      })
      const mill = testMill({ jobs: [part, undo] })
      const node = (input: number) =>
        ({ job: part, input, compensate: undo, onFailure: 'compensate' }) as const
      const chain = await mill.chain([node(0), node(1), node(2)])
      await mill.drain()
      const done = Array.from({ length: dies }, (_, n) => n)
      expect(seen).toEqual([...done.map((n) => `do ${n}`), ...done.reverse().map((n) => `undo ${n}`)])
      expect((await chain.get())?.failure?.code).toBe('COMPENSATED')
    }
  })

  test('compensate: what several jobs wait for is undone once, and not while one of them has used it', async () => {
    for (const shared of [true, false]) {
      const seen: string[] = []
      const undo = defineJob({
        name: 'undo',
        run: ({ input }: { input: string; result: string }) => void seen.push(`undo ${input}`),
      })
      const part = defineJob({
        name: 'part',
        maxAttempts: 1,
        run(text: string) {
          if (text === 'stock') throw new Error('none left')
          return text
        },
      })
      const mill = testMill({ jobs: [part, undo] })
      await mill.flow({
        nodes: {
          charge: { job: part, input: 'charge', compensate: undo },
          stock: { job: part, input: 'stock', onFailure: 'compensate' },
          ship: { job: part, input: 'ship', after: ['charge', 'stock'] },
          invoice: { job: part, input: 'invoice', after: shared ? ['charge', 'stock'] : ['charge'] },
        },
      })
      await mill.drain()
      expect(seen).toEqual(shared ? ['undo charge'] : [])
    }
  })

  test('compensate: what completed is undone, the last one first, and the parent dies', async () => {
    const undone: unknown[] = []
    const undo = defineJob({
      name: 'undo',
      run: (done: { input: number; result: number }) => void undone.push(done),
    })
    const mill = testMill({ jobs: [square, sum, undo], worker: { concurrency: 1 } })
    const node = (input: number) =>
      ({ job: square, input, compensate: undo, onFailure: 'compensate' }) as const
    const flow = await mill.flow({ job: sum, input: null, children: [node(2), node(3), node(-1)] })
    await mill.drain()
    expect((await flow.get())?.failure?.code).toBe('COMPENSATED')
    expect(undone).toEqual([
      { input: 3, result: 9 },
      { input: 2, result: 4 },
    ])
  })
})

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

test('there is a limit to what a flow can undo', async () => {
  const undo = defineJob({ name: 'undo', run: (_: { input: number; result: number }) => {} })
  const mill = testMill({ jobs: [square, sum, undo] })
  const children = Array.from({ length: 1_001 }, () => ({ job: square, input: 1, compensate: undo }))
  await expect(mill.flow({ job: sum, input: null, children }, { id: 'f' })).rejects.toThrow(
    /1000 jobs with `compensate`/,
  )
  expect(await mill.job('f').state()).toBe('cancelled')
})

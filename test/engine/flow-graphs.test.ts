import { defineJob, isMillraceError, type LogLevel } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

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

import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { square, sum } from './flow-jobs.js'
import { testMill } from './mill.js'

describe('a child with `compensate` that fails', () => {
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

test('there is a limit to what a flow can undo', async () => {
  const undo = defineJob({ name: 'undo', run: (_: { input: number; result: number }) => {} })
  const mill = testMill({ jobs: [square, sum, undo] })
  const children = Array.from({ length: 1_001 }, () => ({ job: square, input: 1, compensate: undo }))
  await expect(mill.flow({ job: sum, input: null, children }, { id: 'f' })).rejects.toThrow(
    /1000 jobs with `compensate`/,
  )
  expect(await mill.job('f').state()).toBe('cancelled')
})

describe('compensation in a flow whose jobs are not kept', () => {
  for (const retain of ['7d', 0] as const)
    test(`what a branch that completed has used stays (retain ${retain})`, async () => {
      for (const fleeting of ['ship', 'charge', 'both']) {
        const seen: string[] = []
        const { part, undo } = partsOf(seen)
        const mill = testMill({ jobs: [part, undo], worker: { queues: ['default', 'slow'] } })
        await mill.queue('slow').pause()
        const kept = (name: string) => (fleeting === name || fleeting === 'both' ? { retain } : {})
        await mill.flow({
          nodes: {
            charge: { job: part, input: 'charge', compensate: undo, options: kept('charge') },
            ship: { job: part, input: 'ship', after: ['charge'], options: kept('ship') },
            scan: { job: part, input: 'dies', onFailure: 'compensate', options: { queue: 'slow' } },
            bill: { job: part, input: 'bill', after: ['charge', 'scan'] },
            end: { job: part, input: 'end', after: ['ship', 'bill'] },
          },
        })
        await mill.drain()
        await mill.advance('2h')
        await mill.queue('slow').resume()
        await mill.drain()
        expect(seen).toEqual(['charge', 'ship'])
      }
    })

  test('what came before a job that completed is undone, although that job is not kept', async () => {
    const seen: string[] = []
    const { part, undo } = partsOf(seen)
    const mill = testMill({ jobs: [part, undo] })
    const options = { retain: 0 }
    await mill.chain([
      { job: part, input: 'charge', compensate: undo, options },
      { job: part, input: 'pack', options },
      { job: part, input: 'ship', options },
      { job: part, input: 'dies', onFailure: 'compensate', options },
    ])
    await mill.drain()
    expect(seen).toEqual(['charge', 'pack', 'ship', 'undo charge'])
    const generated = function* () {
      yield { job: part, input: 'stock', compensate: undo, options }
    }
    for (const children of [() => [...generated()], generated]) {
      seen.length = 0
      await mill.flow({
        job: part,
        input: 'end',
        children: [
          { job: part, input: 'pack', children: children(), options },
          { job: part, input: 'dies', onFailure: 'compensate' },
        ],
      })
      await mill.drain()
      expect(seen).toEqual(['stock', 'pack', 'undo stock'])
    }
  })

  test('its jobs are gone when it is over', async () => {
    const { part, undo } = partsOf([])
    const mill = testMill({ jobs: [part, undo] })
    const options = { retain: 0 }
    const flow = await mill.chain(
      [
        { job: part, input: 'charge', compensate: undo, options },
        { job: part, input: 'ship', options },
        { job: part, input: 'end' },
      ],
      { id: 'f' },
    )
    await mill.drain()
    expect(await flow.state()).toBe('completed')
    await mill.advance('2h')
    expect(await mill.job('f.0000001').get()).toBeUndefined()
    expect(await mill.job('f.0000002').get()).toBeUndefined()
  })
})

describe('what was undone is undone once, also when the job that did it is gone', () => {
  for (const retain of ['7d', 0] as const) {
    test(`by each dead job above it (retain ${retain})`, async () => {
      const seen: string[] = []
      const { part, undo } = partsOf(seen, retain)
      const mill = testMill({ jobs: [part, undo] })
      const onFailure = 'compensate'
      const chain = await mill.chain([
        { job: part, input: 'charge', compensate: undo, onFailure },
        { job: part, input: 'dies', onFailure },
        { job: part, input: 'ship', onFailure },
        { job: part, input: 'bill', onFailure },
      ])
      await mill.drain()
      expect(seen).toEqual(['charge', 'undo charge'])
      expect((await chain.get())?.failure?.message).toMatch(/what undoes the others was added$/)
    })

    test(`by those that waited for it, one after the other (retain ${retain})`, async () => {
      const seen: string[] = []
      const { part, undo } = partsOf(seen, retain)
      const mill = testMill({ jobs: [part, undo], worker: { queues: ['default', 'slow'] } })
      await mill.queue('slow').pause()
      await mill.flow({
        nodes: {
          charge: { job: part, input: 'charge', compensate: undo },
          stock: { job: part, input: 'dies', onFailure: 'compensate' },
          scan: { job: part, input: 'scan', options: { queue: 'slow' } },
          ship: { job: part, input: 'ship', after: ['charge', 'stock'], onFailure: 'continue' },
          bill: { job: part, input: 'bill', after: ['charge', 'stock', 'scan'], onFailure: 'continue' },
          end: { job: part, input: 'end', after: ['ship', 'bill'] },
        },
      })
      await mill.drain()
      expect(seen).toEqual(['charge', 'undo charge'])
      await mill.queue('slow').resume()
      await mill.drain()
      expect(seen).toEqual(['charge', 'undo charge', 'scan', 'end'])
    })

    test(`by replays (retain ${retain})`, async () => {
      const seen: string[] = []
      const { part, undo } = partsOf(seen, retain)
      const mill = testMill({ jobs: [part, undo] })
      const flow = await mill.flow({
        job: part,
        input: 'ship',
        children: [
          { job: part, input: 'charge', compensate: undo },
          { job: part, input: 'dies', onFailure: 'compensate' },
        ],
      })
      await mill.drain()
      await mill.advance('8d')
      await mill.dead.retry(flow.id)
      await mill.drain()
      expect((await flow.get())?.failure?.message).toMatch(/what undoes the others was added$/)
      await mill.dead.retryAll()
      await mill.drain()
      expect(seen).toEqual(['charge', 'undo charge'])
    })
  }

  test('what is done again is undone again', async () => {
    const seen: string[] = []
    const { part, undo } = partsOf(seen, 0)
    const mill = testMill({ jobs: [part, undo] })
    const flow = await mill.flow(
      {
        job: part,
        input: 'ship',
        children: [
          { job: part, input: 'charge', compensate: undo },
          { job: part, input: 'dies', onFailure: 'compensate' },
        ],
      },
      { id: 'f' },
    )
    await mill.drain()
    await mill.advance('1m')
    await mill.dead.retry('f.0000001')
    await mill.drain()
    expect(seen).toEqual(['charge', 'undo charge', 'charge'])
    await mill.dead.retry(flow.id)
    await mill.drain()
    expect(seen).toEqual(['charge', 'undo charge', 'charge', 'undo charge'])
  })
})

function partsOf(seen: string[], retain: '7d' | 0 = '7d') {
  const undo = defineJob({
    name: 'undo',
    retain,
    run: ({ input }: { input: string; result: undefined }) => void seen.push(`undo ${input}`),
  })
  const part = defineJob({
    name: 'part',
    maxAttempts: 1,
    run(text: string) {
      if (text === 'dies') throw new Error('no')
      seen.push(text)
    },
  })
  return { part, undo }
}

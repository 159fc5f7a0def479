import { defineBatchJob, defineJob } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { numbers, quietly, recorder } from './batches.js'
import { realMill, signal, testMill } from './mill.js'

describe('a batch starts', () => {
  test.for([0, '50ms'])('with all the jobs it can take when there is a backlog, wait %s', async (wait) => {
    const sizes: number[] = []
    let running = 0
    let most = 0
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 100, wait },
      run: async (inputs: number[]) => {
        sizes.push(inputs.length)
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 2))
        running--
        return inputs.map((n) => n * 2)
      },
    })
    const mill = testMill({ jobs: [work], worker: { concurrency: 10 } })
    const jobs = await mill.enqueueMany(work, numbers(10_000))
    await mill.drain()
    expect(sizes).toEqual(Array(100).fill(100))
    expect(most).toBeLessThanOrEqual(10)
    expect((await mill.stats()).totals.completed).toBe(10_000)
    expect(await Promise.all([0, 4_321, 9_999].map((i) => jobs[i]?.result()))).toEqual([0, 8_642, 19_998])
  })

  test('at once when it is full, else after its wait', async () => {
    const { calls, run, sizes } = recorder()
    const work = defineBatchJob({ name: 'work', batch: { size: 10, wait: '50ms' }, run })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, numbers(25))
    const worker = mill.worker(quietly)
    await worker.start()
    await mill.clock.advance(49)
    expect(sizes()).toEqual([10, 10])
    expect(worker.active).toBe(0)
    expect(worker.idle).toBe(false)
    await mill.clock.advance(1)
    expect(sizes()).toEqual([10, 10, 5])
    expect(calls.flat()).toEqual(numbers(25))
    expect(worker.idle).toBe(true)
    await worker.stop()
  })

  test('and takes what is enqueued while it waits, even when no slot is free', async () => {
    const { calls, run } = recorder()
    const end = signal()
    const slow = defineJob({ name: 'slow', run: () => end.promise })
    const work = defineBatchJob({ name: 'work', batch: { size: 5, wait: '1s' }, run })
    const mill = testMill({ jobs: [slow, work] })
    const worker = mill.worker({ ...quietly, concurrency: 1 })
    await worker.start()
    await mill.enqueue(work, 1)
    await mill.clock.advance(100)
    await mill.enqueue(slow, null)
    await mill.clock.advance(100)
    expect(worker.active).toBe(1)
    await mill.enqueue(work, 2)
    await mill.clock.advance(900)
    await mill.enqueue(work, 3)
    await mill.clock.advance(100)
    expect(calls).toEqual([])
    end.give()
    await mill.clock.advance(0)
    expect(calls).toEqual([[1, 2, 3]])
    await worker.stop()
  })

  test('at once with wait 0, with what the queue has', async () => {
    const { calls, run } = recorder()
    const work = defineBatchJob({ name: 'work', batch: { size: 100, wait: 0 }, run })
    const mill = testMill({ jobs: [work] })
    const worker = mill.worker({ ...quietly, concurrency: 2 })
    await worker.start()
    await mill.enqueue(work, 1)
    await mill.clock.advance(0)
    await mill.enqueueMany(work, [2, 3, 4, 5])
    await mill.clock.advance(0)
    expect(calls).toEqual([[1], [2, 3, 4, 5]])
    await worker.stop()
  })

  test('of jobs with the same key only', async () => {
    const calls: string[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { size: 3, by: (input: { table?: string; row: number }) => input.table },
      run: (inputs) => void calls.push(inputs.map(({ table, row }) => `${table ?? '-'}${row}`)),
    })
    const mill = testMill({ jobs: [work] })
    const tables = ['a', 'b', undefined]
    await mill.enqueueMany(
      work,
      numbers(12).map((row) => ({ ...(tables[row % 3] && { table: tables[row % 3] as string }), row })),
    )
    await mill.drain()
    const expected = [['a0', 'a3', 'a6'], ['b1', 'b4', 'b7'], ['-2', '-5', '-8'], ['a9'], ['b10'], ['-11']]
    expect(calls.sort()).toEqual(expected.sort())
  })

  test('by itself for a job whose key cannot be told', async () => {
    const calls: (string | null)[][] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { by: (input: string | null) => (input as string).toUpperCase() },
      run: (inputs) => void calls.push(inputs),
    })
    const mill = testMill({ jobs: [work] })
    const errors: string[] = []
    mill.on('error', ({ during }) => errors.push(during))
    await mill.enqueueMany(work, ['a', null, 'A', 'a'])
    await mill.drain()
    expect(calls).toEqual([[null], ['a', 'A', 'a']])
    expect(errors).toEqual(["batch.by of job 'work'"])
  })

  test('of one lane, so that urgent jobs do not wait for others', async () => {
    const calls: string[][] = []
    const work = defineBatchJob({ name: 'work', run: (inputs: string[]) => void calls.push(inputs) })
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, ['c', 'd'])
    await mill.enqueueMany(work, ['a', 'b'], { priority: 'critical' })
    await mill.drain()
    expect(calls).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ])
  })
})

describe('in virtual time', () => {
  test('drain lets a batch wait, and advance goes no further than told', async () => {
    const at: number[] = []
    const work = defineBatchJob({
      name: 'work',
      batch: { wait: '1m' },
      run: (_: number[]) => void at.push(mill.clock.now() - start),
    })
    const mill: TestMill = testMill({ jobs: [work] })
    const start = mill.clock.now()
    await mill.enqueueMany(work, [1, 2])
    await mill.advance('30s')
    expect(at).toEqual([])
    expect(mill.clock.now() - start).toBe(30_000)
    expect((await mill.stats()).states.pending).toBe(2)
    await mill.advance('2m')
    expect(at).toEqual([90_000])
    expect(mill.clock.now() - start).toBe(150_000)
    await mill.enqueue(work, 3, { delay: '1h' })
    await mill.enqueue(work, 4)
    await mill.drain()
    expect(at).toEqual([90_000, 210_000])
    await mill.drain({ later: true })
    expect(at[2]).toBe(150_000 + 3_600_000 + 60_000)
  })

  test('inline mode runs a batch of what was enqueued', async () => {
    const { calls, run } = recorder()
    const work = defineBatchJob({ name: 'work', run })
    const mill = testMill({ jobs: [work], inline: true })
    expect(await (await mill.enqueue(work, 1)).result()).toBe(2)
    await mill.enqueueMany(work, [2, 3])
    expect(calls).toEqual([[1], [2, 3]])
  })
})

test('in real time, two workers share a backlog in full batches, and failures come again', async () => {
  const sizes: number[] = []
  const seen = new Map<number, number>()
  const work = defineBatchJob({
    name: 'work',
    batch: { size: 50, wait: '50ms' },
    backoff: { type: 'fixed', initialDelay: 5 },
    run: async (inputs: number[], { jobs }) => {
      sizes.push(inputs.length)
      await new Promise((resolve) => setTimeout(resolve, 1))
      return inputs.map((n, i) => {
        seen.set(n, (seen.get(n) ?? 0) + 1)
        return n % 7 === 0 && jobs[i]?.attempt === 1 ? new Error('first time') : n
      })
    },
  })
  const mill = realMill({ jobs: [work] })
  const jobs = await mill.enqueueMany(work, numbers(4_000))
  for (const concurrency of [2, 3]) await mill.worker({ ...quietly, concurrency }).start()
  await mill.queue('default').drain({ later: true, timeout: '25s' })
  expect((await mill.stats()).totals).toMatchObject({ completed: 4_000, retried: 572, dead: 0 })
  expect(await jobs[77]?.result()).toBe(77)
  expect([...seen].filter(([n, times]) => times !== (n % 7 === 0 ? 2 : 1))).toEqual([])
  expect(sizes.filter((size) => size === 50).length).toBeGreaterThan(40)
})

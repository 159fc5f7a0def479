import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

const work = defineJob({ name: 'work', queue: 'mail', run: (n: number) => n })

describe('a queue', () => {
  test('pause keeps its jobs, resume lets them go', async () => {
    const mill = testMill({ jobs: [work] })
    const heard: string[] = []
    mill.on('paused', ({ queue }) => heard.push(`paused ${queue}`))
    mill.on('resumed', ({ queue }) => heard.push(`resumed ${queue}`))
    const queue = mill.queue('mail')
    await queue.pause()
    await mill.enqueueMany(work, [1, 2, 3])
    await mill.drain()
    expect(await queue.depth()).toMatchObject({ pending: 3, running: 0, paused: true })
    await queue.resume()
    await mill.drain()
    expect(await queue.depth()).toMatchObject({ pending: 0, paused: false })
    expect((await mill.stats()).totals.completed).toBe(3)
    expect(heard).toEqual(['paused mail', 'resumed mail'])
  })

  test('depth tells the lanes apart', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2], { priority: 'low' })
    await mill.enqueue(work, 3, { priority: 'critical' })
    await mill.enqueue(work, 4, { delay: '1h' })
    expect(await mill.queue('mail').depth()).toEqual({
      pending: 3,
      running: 0,
      later: 1,
      blocked: 0,
      lanes: { critical: 1, high: 0, default: 0, low: 2 },
      paused: false,
    })
  })

  test('clear removes what waits and nothing else', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2])
    await mill.drain()
    await mill.enqueueMany(
      work,
      Array.from({ length: 2_500 }, (_, i) => i),
    )
    await mill.enqueueMany(work, [1, 2, 3], { delay: '1h' })
    await mill.enqueueMany(work, [1], { queue: 'other' })
    expect(await mill.queue('mail').clear()).toBe(2_503)
    expect((await mill.stats()).states).toMatchObject({ pending: 1, scheduled: 0, completed: 2 })
  })

  test('clear leaves nothing of flows, in whatever order states are named', async () => {
    const mill = testMill({ jobs: [work] })
    const queue = mill.queue('mail')
    for (const states of [undefined, ['pending', 'blocked'] as const]) {
      await mill.chain([
        { job: work, input: 1 },
        { job: work, input: 2 },
        { job: work, input: 3 },
      ])
      expect(await queue.clear(states && { states })).toBe(3)
      expect(await queue.depth()).toMatchObject({ pending: 0, blocked: 0 })
    }
  })

  test('drain waits for the end, or says how much is left', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2, 3])
    const late = mill.queue('mail').drain({ timeout: '1s' })
    const refused = expect(late).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' })
    await mill.clock.advance(1_500)
    await refused
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const done = mill.queue('mail').drain()
    await mill.clock.advance(300)
    await done
    expect((await mill.stats()).states.completed).toBe(3)
    await worker.stop()
  })

  test('jobs are listed by state', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.enqueueMany(work, [1, 2, 3], { tags: ['blue'] })
    await mill.enqueue(work, 9)
    const { jobs } = await mill.jobs({ state: 'pending', tag: 'blue' })
    expect(jobs.map((job) => job.input)).toEqual([1, 2, 3])
    expect((await mill.jobs({ state: 'completed' })).jobs).toEqual([])
  })

  test('several queues of a worker take turns', async () => {
    const order: string[] = []
    const a = defineJob({ name: 'a', queue: 'a', run: () => void order.push('a') })
    const b = defineJob({ name: 'b', queue: 'b', run: () => void order.push('b') })
    const mill = testMill({ jobs: [a, b], worker: { concurrency: 2, prefetch: 0 } })
    await mill.enqueueMany(a, Array(50).fill(null))
    await mill.enqueueMany(b, Array(10).fill(null))
    await mill.drain()
    expect(order.lastIndexOf('b')).toBeLessThan(30)
  })
})

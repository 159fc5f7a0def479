import { defineJob, type JobHandle, Millrace, QueueFullError } from 'millrace'
import { VirtualClock } from 'millrace/testing'
import { describe, expect, test, vi } from 'vitest'
import { realMill, storeOf, testMill, vanish } from './mill.js'

const work = defineJob({ name: 'work', queue: 'mail', run: () => {} })

describe('a full queue', () => {
  test('rejects with an error that maps to HTTP 429', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.queue('mail').depthLimit({ max: 3 })
    await mill.enqueueMany(work, [1, 2])
    await mill.enqueue(work, 3)
    const error = await mill.enqueue(work, 4).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(QueueFullError)
    expect(error).toMatchObject({ code: 'QUEUE_FULL', queue: 'mail', depth: 3, limit: 3, retryAfter: 1000 })
    await mill.drain()
    expect((await mill.enqueue(work, 4)).status).toBe('inserted')
  })

  test('tells how many of many it took', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.queue('mail').depthLimit({ max: 3 })
    await expect(mill.enqueueMany(work, [1, 2, 3, 4, 5])).rejects.toMatchObject({ added: 3 })
    expect((await mill.queue('mail').depth()).pending).toBe(3)
  })

  test('is declared with the queues, and what was chosen at run time wins', async () => {
    const mill = realMill({ jobs: [work], queues: { mail: { depth: { max: 1 } } } })
    await mill.enqueue(work, 1)
    await expect(mill.enqueue(work, 2)).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    await mill.queue('mail').depthLimit({ max: 2, low: 2 })
    expect((await mill.enqueue(work, 2)).status).toBe('inserted')
    await mill.queue('mail').depthLimit(null)
    await expect(mill.enqueue(work, 3)).rejects.toMatchObject({ code: 'QUEUE_FULL', limit: 1 })
  })

  test('is full no more once the code declares the queue without a limit, which to leave it out does not', async () => {
    const mill = testMill({
      jobs: [work],
      queues: { mail: { depth: { max: 1 }, limit: { concurrency: 1 } } },
    })
    await mill.enqueue(work, 1)
    await new Millrace({ store: storeOf(mill), queues: {} }).open()
    await expect(mill.enqueue(work, 2)).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    await new Millrace({ store: storeOf(mill), queues: { mail: {} } }).open()
    expect((await mill.enqueue(work, 2)).status).toBe('inserted')
    const { gates } = await storeOf(mill).gates({ of: 'queue', names: ['mail'], limit: 1 })
    expect(gates[0]?.declared ?? {}).toEqual({})
  })

  test('is waited for until the low mark is reached', async () => {
    const mill = realMill({
      jobs: [work],
      queues: { mail: { depth: { max: 10, low: 5, overflow: 'wait' } } },
    })
    await mill.enqueueMany(
      work,
      Array.from({ length: 10 }, (_, i) => i),
    )
    let through = 0
    const rest = Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        await mill.enqueue(work, i)
        through++
      }),
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(through).toBe(0)
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await rest
    await mill.queue('mail').drain()
    expect((await mill.stats()).totals.completed).toBe(210)
  })

  for (const how of ['one by one', 'many at once'] as const) {
    test(`no sign of room is missed by those who wait, ${how}`, async () => {
      // Time stands still: nobody polls, and nobody looks again by itself.
      const clock = new VirtualClock()
      const mill = realMill({
        clock,
        jobs: [work],
        queues: { mail: { depth: { max: 10, overflow: 'wait' } } },
      })
      await mill.worker({ handleSignals: false, concurrency: 5 }).start()
      const inputs = Array.from({ length: 100 }, (_, i) => i)
      const handles =
        how === 'many at once'
          ? await mill.enqueueMany(work, inputs)
          : await Promise.all(inputs.map((i) => mill.enqueue(work, i)))
      expect(new Set(handles.map(({ id }) => id)).size).toBe(100)
      await Promise.all(handles.map((handle) => handle.result()))
    })
  }

  test('those who wait for a full lane keep nobody of another lane out', async () => {
    const mill = testMill()
    const plain = defineJob({ name: 'plain', run: () => {} })
    await mill.queue('default').depthLimit({ max: 4, low: 3, lanes: { low: 1 }, overflow: 'wait' })
    await mill.enqueue(plain, 1, { priority: 'low' })
    await mill.enqueueMany(plain, [2, 3, 4])
    const controller = new AbortController()
    const low = mill.enqueue(plain, 5, { priority: 'low', signal: controller.signal })
    const refused = expect(low).rejects.toThrow('enough')
    await mill.clock.advance(0)
    const added = mill.enqueue(plain, 6)
    await mill.clock.advance(0)
    expect(await vanish(mill, 'w')).toHaveLength(3)
    expect((await added).status).toBe('inserted')
    controller.abort(new Error('enough'))
    await refused
  })

  test('a signal ends the wait, and so does the end of the mill', async () => {
    const mill = realMill({ jobs: [work], queues: { mail: { depth: { max: 1, overflow: 'wait' } } } })
    await mill.enqueue(work, 1)
    const controller = new AbortController()
    const aborted = expect(mill.enqueue(work, 2, { signal: controller.signal })).rejects.toThrow('enough')
    const closed = expect(mill.enqueue(work, 3)).rejects.toMatchObject({ code: 'CLOSED' })
    await new Promise((resolve) => setTimeout(resolve, 5))
    controller.abort(new Error('enough'))
    await aborted
    await mill.close()
    await closed
  })

  test('a signal that ends the wait of many tells how many were added', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.queue('mail').depthLimit({ max: 600, overflow: 'wait' })
    const controller = new AbortController()
    const { signal } = controller
    const inputs = Array.from({ length: 700 }, (_, i) => i)
    const some = expect(mill.enqueueMany(work, inputs, { signal })).rejects.toMatchObject({
      code: 'QUEUE_FULL',
      queue: 'mail',
      added: 600,
      cause: new Error('enough'),
    })
    await vi.waitFor(async () => expect((await mill.queue('mail').depth()).pending).toBe(600))
    const none = expect(mill.enqueueMany(work, inputs, { signal })).rejects.toThrow('enough')
    await mill.clock.advance(0)
    controller.abort(new Error('enough'))
    await Promise.all([some, none])
    expect((await mill.queue('mail').depth()).pending).toBe(600)
  })

  test('a signal that is aborted already keeps all from being written, in a handler too', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    const adds = defineJob({
      name: 'adds',
      run: (_: null, { enqueue }) => enqueue(work, 1, { signal }),
      maxAttempts: 1,
    })
    const mill = testMill({ jobs: [work, adds] })
    await expect(mill.enqueue(work, 1, { signal })).rejects.toBe(signal.reason)
    await expect(mill.enqueueMany(work, [1, 2], { signal })).rejects.toBe(signal.reason)
    const handle = await mill.enqueue(adds, null)
    await mill.drain()
    await expect(handle.result()).rejects.toThrow('enough')
    expect((await mill.stats()).totals.enqueued).toBe(1)
  })

  test('sheds the low lanes and keeps the critical one, counted and told', async () => {
    const mill = testMill({ jobs: [work] })
    await mill.queue('mail').depthLimit({ max: 10, overflow: 'shed' })
    const told: string[] = []
    mill.on('shed', ({ priority, deferred }) => told.push(`${priority} ${deferred}`))
    const low = await mill.enqueueMany(work, [1, 2, 3, 4, 5, 6, 7], { priority: 'low' })
    expect(low.map(({ status }) => status)).toEqual([...Array(5).fill('inserted'), 'shed', 'shed'])
    expect((await mill.enqueue(work, 1, { priority: 'critical' })).status).toBe('inserted')
    expect(told).toEqual(['low false', 'low false'])
    expect((await mill.stats()).totals.shed).toBe(2)
    const shed = low[6] as JobHandle<void>
    const gone = { code: 'JOB_NOT_FOUND', message: expect.stringMatching(/was shed .* never added/) }
    expect(await shed.get()).toBeUndefined()
    for (const asked of ['state', 'result', 'cancel', 'attempts', 'logs'] as const)
      await expect(shed[asked]()).rejects.toMatchObject(gone)
    await expect(shed.watch().next()).rejects.toMatchObject(gone)
    await expect(mill.job(shed.id).state()).rejects.toThrow('its retention may be over')
    await mill.queue('mail').depthLimit({ max: 10, overflow: 'shed', defer: '1m' })
    const put = await mill.enqueue(work, 8, { priority: 'low' })
    expect([put.status, await put.state()]).toEqual(['deferred', 'scheduled'])
    await mill.drain({ later: true })
    expect((await mill.stats()).totals).toMatchObject({ completed: 7, shed: 2, deferred: 1 })
  })

  test('wrong options are refused with a word', async () => {
    const queue = testMill({ jobs: [work] }).queue('mail')
    await expect(queue.depthLimit({ max: 0 })).rejects.toMatchObject({ field: 'depth.max' })
    await expect(queue.depthLimit({ max: 5, low: 6 })).rejects.toMatchObject({ field: 'depth.low' })
    await expect(queue.depthLimit({ max: 5, defer: '1s' })).rejects.toMatchObject({ field: 'depth.overflow' })
    await expect(queue.depthLimit({ max: 5, lanes: { lwo: 1 } as never })).rejects.toThrow(
      "did you mean 'low'",
    )
  })
})

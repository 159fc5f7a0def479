import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

function makeJobs() {
  const seen: string[] = []
  const work = defineJob({
    name: 'work',
    maxAttempts: 1,
    run(n: number) {
      if (n < 0) throw new Error('below zero')
    },
  })
  const note = defineJob({ name: 'note', run: (text: string) => void seen.push(text) })
  const callbacks = {
    onComplete: { job: note, input: 'complete' },
    onSuccess: { job: note, input: 'success' },
    onDead: { job: note, input: 'dead' },
  }
  return { seen, work, note, callbacks, jobs: [work, note] }
}

describe('a batch', () => {
  test('tells when all of its jobs have completed, once it is sealed', async () => {
    const { seen, work, callbacks, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch(callbacks)
    await batch.enqueueMany(work, [1, 2])
    await mill.drain()
    expect(await batch.progress()).toEqual({ jobs: 2, left: 0, open: true, done: false })
    await batch.enqueue(work, 3)
    await batch.seal()
    expect(await batch.progress()).toEqual({ jobs: 3, left: 1, open: false, done: false })
    await mill.drain()
    expect(seen.sort()).toEqual(['complete', 'success'])
    expect(await batch.progress()).toEqual({ jobs: 3, left: 0, open: false, done: true })
    await batch.result()
  })

  test('tells of the first death at once and only once, and of the end', async () => {
    const { seen, work, callbacks, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch({ id: 'import-7', ...callbacks })
    await batch.enqueueMany(work, [1, -1])
    await batch.enqueue(work, 5, { queue: 'elsewhere' })
    await batch.seal()
    await mill.drain()
    expect(seen).toEqual(['dead'])
    await mill.batch('import-7').enqueueMany(work, [-2, -3])
    await mill.drain()
    expect(seen).toEqual(['dead'])
    const elsewhere = mill.worker({ queues: ['elsewhere'] })
    await elsewhere.start()
    await mill.advance('1s')
    await elsewhere.stop()
    await mill.drain()
    expect(seen).toEqual(['dead', 'complete'])
  })

  test('cancelled jobs are no success, and no death', async () => {
    const { seen, work, callbacks, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch(callbacks)
    const job = await batch.enqueue(work, 1)
    await batch.seal()
    await job.cancel()
    await mill.drain()
    expect(seen).toEqual(['complete'])
  })

  test('one that nobody seals is sealed when its patience is over', async () => {
    const { seen, work, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch({ onComplete: { job: note, input: 'complete' }, patience: '1h' })
    await batch.enqueue(work, 1)
    await mill.advance('59m')
    expect(seen).toEqual([])
    await mill.advance('2m')
    expect(seen).toEqual(['complete'])
  })

  test('a death takes nothing of its patience, and is told once although the callback is not kept', async () => {
    const { seen, work, jobs } = makeJobs()
    const brief = defineJob({ name: 'brief', retain: 0, run: (text: string) => void seen.push(text) })
    const mill = testMill({ jobs: [...jobs, brief] })
    const batch = await mill.batch({
      onComplete: { job: brief, input: 'complete' },
      onDead: { job: brief, input: 'dead' },
      patience: '1h',
    })
    await batch.enqueueMany(work, [1, -1])
    await mill.drain()
    expect(seen).toEqual(['dead'])
    expect(await batch.progress()).toMatchObject({ left: 0, open: true })
    await mill.advance('59m')
    await batch.enqueue(work, -2)
    await mill.drain()
    expect(seen).toEqual(['dead'])
    await mill.advance('2m')
    expect(seen).toEqual(['dead', 'complete'])
  })

  test('one that was cancelled unsealed and is wanted after all waits to be sealed, as long as it has patience', async () => {
    const { seen, work, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch({ onComplete: { job: note, input: 'complete' } })
    await batch.enqueue(work, 1)
    await batch.cancel()
    await mill.dead.retry(batch.id)
    await mill.drain()
    expect(await batch.progress()).toMatchObject({ jobs: 1, open: true, done: false })
    await mill.advance('1d')
    expect(await batch.progress()).toMatchObject({ jobs: 1, open: false, done: true })
    expect(seen).toEqual(['complete'])
  })

  test('jobs of it add more to it; when it is over it takes no more', async () => {
    const { seen, work, note, jobs } = makeJobs()
    const split = defineJob({
      name: 'split',
      run: async (batch: string) => void (await mill.batch(batch).enqueueMany(work, [1, 2, 3])),
    })
    const mill = testMill({ jobs: [...jobs, split] })
    const batch = await mill.batch({ onSuccess: { job: note, input: 'success' } })
    await batch.enqueue(split, batch.id)
    await batch.seal()
    await mill.drain()
    expect(seen).toEqual(['success'])
    expect((await batch.progress())?.jobs).toBe(4)
    await expect(batch.enqueue(work, 1)).rejects.toMatchObject({ code: 'FLOW_DONE' })
    await expect(mill.batch('nobody').enqueue(work, 1)).rejects.toMatchObject({ code: 'FLOW_DONE' })
    await expect(mill.batch('nobody').seal()).rejects.toMatchObject({ code: 'FLOW_DONE' })
  })

  test('is not what has the id of a flow or a job', async () => {
    const { work, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    await mill.flow({ job: note, input: 'end', children: [{ job: work, input: 1 }] }, { id: 'f' })
    await mill.enqueue(work, 1, { id: 'j' })
    const isNone = { code: 'FLOW_TAKEN', field: 'id' }
    for (const [id, what] of [
      ['f', "f is no batch but a job 'note' of flow f"],
      ['j', "j is no batch but a job 'work'"],
    ] as const) {
      const refusal = { ...isNone, value: id, message: expect.stringContaining(what) }
      const made = mill.batch({ id, onComplete: { job: note, input: '' } })
      await expect(made).rejects.toMatchObject(refusal)
      const batch = mill.batch(id)
      await expect(batch.seal()).rejects.toMatchObject(refusal)
      await expect(batch.enqueue(work, 1)).rejects.toMatchObject(refusal)
      await expect(batch.enqueueMany(work, [1])).rejects.toMatchObject(refusal)
      await expect(batch.progress()).rejects.toMatchObject(refusal)
    }
  })

  test('the same id is the same batch', async () => {
    const { seen, work, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const make = () => mill.batch({ id: 'b', onComplete: { job: note, input: 'complete' } })
    const [first, second] = [await make(), await make()]
    expect([first.duplicate, second.duplicate]).toEqual([false, true])
    await second.enqueueMany(work, [1, 2])
    await first.seal()
    await second.seal()
    await mill.drain()
    expect(seen).toEqual(['complete'])
  })

  test('without jobs it is over when it is sealed', async () => {
    const { seen, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch({
      onComplete: { job: note, input: 'complete' },
      onSuccess: { job: note, input: 'success' },
    })
    await batch.seal()
    await mill.drain()
    expect(seen.sort()).toEqual(['complete', 'success'])
  })

  test('a cancel takes its jobs along and adds no callback', async () => {
    const { seen, work, note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    const batch = await mill.batch({ onComplete: { job: note, input: 'complete' } })
    await batch.enqueueMany(work, [1, 2])
    await batch.cancel()
    await mill.drain()
    expect(seen).toEqual([])
    expect((await mill.stats()).states.cancelled).toBe(3)
  })

  test('options are checked, names near the known ones are told', async () => {
    const { note, jobs } = makeJobs()
    const mill = testMill({ jobs })
    await expect(mill.batch({ onSucces: { job: note, input: '' } } as never)).rejects.toThrow(/'onSuccess'/)
    await expect(mill.batch({ onDead: { job: 5, input: '' } } as never)).rejects.toThrow(/job is 5/)
    await expect(mill.batch({ id: 'x'.repeat(120) })).rejects.toThrow(/at most 117 characters/)
  })
})

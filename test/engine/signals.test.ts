import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { testMill } from './mill.js'

describe('signals', () => {
  const approval = defineJob({
    name: 'approval',
    run: async (key: string, { step }) => {
      const answer = await step.waitFor(key, { timeout: '1d', schema: z.object({ by: z.string() }) })
      return answer === undefined ? 'nobody' : answer.by
    },
  })

  test('wake the job that waits, with the payload', async () => {
    const mill = testMill({ jobs: [approval] })
    const [a, b] = [await mill.enqueue(approval, 'a'), await mill.enqueue(approval, 'b')]
    await mill.drain()
    expect(await a.state()).toBe('blocked')
    const sent = await mill.signal('a', { by: 'ann' }, { id: 's1' })
    expect(sent).toEqual({ id: 's1', woken: 1 })
    expect(await mill.signal('a', { by: 'bob' }, { id: 's1' })).toEqual({ id: 's1', woken: 0 })
    await mill.drain()
    expect(await a.result()).toBe('ann')
    expect(await b.state()).toBe('blocked')
    await mill.advance('1d')
    expect(await b.result()).toBe('nobody')
    expect(await b.get()).toMatchObject({ attempt: 1 })
  })

  test('are kept for jobs that wait later, for a time', async () => {
    const mill = testMill({ jobs: [approval] })
    await mill.signal('x', { by: 'early' }, { retain: '1h' })
    const first = await mill.enqueue(approval, 'x')
    await mill.drain()
    expect(await first.result()).toBe('early')
    await mill.advance('61m')
    const second = await mill.enqueue(approval, 'x')
    await mill.drain()
    expect(await second.state()).toBe('blocked')
  })

  test('come in order, each once; a payload that its schema refuses fails the job', async () => {
    const collect = defineJob({
      name: 'collect',
      run: async (_: null, { step }) => {
        const got: number[] = []
        while (got.length < 4) got.push(await step.waitFor<number>('n'))
        return got
      },
    })
    const mill = testMill({ jobs: [collect, approval] })
    await mill.signal('n', 1)
    await mill.signal('n', 2)
    const job = await mill.enqueue(collect, null)
    await mill.drain()
    await mill.signal('n', 3)
    await mill.signal('n', 4)
    await mill.drain()
    expect(await job.result()).toEqual([1, 2, 3, 4])
    const strict = await mill.enqueue(approval, 'strict')
    await mill.signal('strict', { by: 7 })
    await mill.drain()
    expect((await strict.get())?.failure?.message).toMatch(
      /the payload of signal 'strict' is invalid at \$.by/,
    )
  })

  test('a key may be as long as an id, and is checked whatever the step is called', async () => {
    const key = 'k'.repeat(128)
    const job = defineJob({
      name: 'long-key',
      run: async (_: null, { step }) => {
        const errors: string[] = []
        for (const bad of [`${key}k`, 'a b'])
          await step.waitFor(bad, { name: 'wait' }).catch((error: Error) => errors.push(error.message))
        return [await step.waitFor(key), await step.waitFor(key), errors]
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.signal(key, 1)
    await mill.drain()
    await mill.signal(key, 2)
    await mill.drain()
    expect(await handle.result()).toEqual([
      1,
      2,
      [expect.stringMatching(/^key is/), expect.stringMatching(/^key is/)],
    ])
    expect((await handle.steps()).map(({ name }) => name)).toEqual([`wait:${key}`, `wait:${key}#2`])
  })

  test('two waits for one key get two signals, and one of several wakes the job for the rest', async () => {
    const both = defineJob({
      name: 'both',
      run: async (_: null, { step }) =>
        step.all([step.waitFor<string>('k'), step.waitFor<string>('k'), step.waitFor<string>('other')]),
    })
    const mill = testMill({ jobs: [both] })
    const job = await mill.enqueue(both, null)
    await mill.drain()
    await mill.signal('other', 'o')
    await mill.drain()
    expect(await job.state()).toBe('blocked')
    await mill.signal('k', 'first')
    await mill.signal('k', 'second')
    await mill.drain()
    expect(await job.result()).toEqual(['first', 'second', 'o'])
  })

  test('bad keys, payloads and options are refused before anything is written', async () => {
    const mill = testMill()
    await expect(mill.signal('a b')).rejects.toMatchObject({ code: 'INVALID_OPTION', field: 'key' })
    await expect(mill.signal('')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(mill.signal('a', () => {})).rejects.toMatchObject({ code: 'PAYLOAD_NOT_SERIALISABLE' })
    await expect(mill.signal('a', 1, { retian: 1 } as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    await expect(mill.signal('a', 1, { retain: 'long' })).rejects.toMatchObject({ code: 'INVALID_DELAY' })
  })

  test('a job that waits twice for one key gets each signal once, whatever order its waits end in', async () => {
    const slow = defineJob({
      name: 'slow',
      async run(_: null, { step }) {
        const [a, b] = await step.all([
          async () => {
            await step.sleep('1h')
            return step.waitFor('k', { name: 'first' })
          },
          () => step.waitFor('k', { name: 'second' }),
        ])
        return [a, b, await step.waitFor('k', { name: 'third', timeout: '1d' })]
      },
    })
    const mill = testMill({ jobs: [slow] })
    const job = await mill.enqueue(slow, null)
    await mill.drain()
    await mill.signal('k', 's1')
    await mill.drain()
    await mill.advance('2h')
    await mill.signal('k', 's2')
    await mill.drain()
    await mill.advance('2d')
    expect(((await job.result()) as unknown[]).slice().sort()).toEqual(['s1', 's2', undefined].sort())
  })
})

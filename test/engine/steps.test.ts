import { defineBatchJob, defineJob, isMillraceError, NonRetryableError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { realMill, signal, testMill } from './mill.js'

const quick = { backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' } } as const

describe('steps', () => {
  test('a step that is done is not done again by a retry', async () => {
    const done: string[] = []
    let tries = 0
    const order = defineJob({
      name: 'order',
      ...quick,
      run: async (_: null, { step }) => {
        const charge = await step('charge', () => {
          done.push('charge')
          return { id: 'ch_1', at: new Date(5) }
        })
        const nothing = await step('note', () => void done.push('note'))
        if (++tries < 3) throw new Error('after the charge')
        return { charge, nothing }
      },
    })
    const mill = testMill({ jobs: [order] })
    const job = await mill.enqueue(order, null)
    await mill.drain({ later: true })
    expect(await job.result()).toEqual({ charge: { id: 'ch_1', at: new Date(5) }, nothing: undefined })
    expect(done).toEqual(['charge', 'note'])
    expect(await job.get()).toMatchObject({ attempt: 3 })
    expect((await job.steps()).map(({ name, value, waiting }) => ({ name, value, waiting }))).toEqual([
      { name: 'charge', value: { id: 'ch_1', at: new Date(5) }, waiting: false },
      { name: 'note', value: undefined, waiting: false },
    ])
  })

  test('a name that comes again is numbered, and the key of a step stays the same', async () => {
    const keys: string[] = []
    let fail = true
    const job = defineJob({
      name: 'loop',
      ...quick,
      run: async (_: null, { step }) => {
        const got: number[] = []
        for (let i = 1; i <= 3; i++) {
          const n = await step('part', ({ key }) => {
            keys.push(key)
            if (i === 3 && fail) {
              fail = false
              throw new Error('once')
            }
            return i
          })
          got.push(n)
        }
        return got
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null, { id: 'x' })
    await mill.drain({ later: true })
    expect(await handle.result()).toEqual([1, 2, 3])
    expect(keys).toEqual(['x:part', 'x:part#2', 'x:part#3', 'x:part#3'])
    expect((await handle.steps()).map((step) => step.name)).toEqual(['part', 'part#2', 'part#3'])
  })

  test('no two steps share a key, and a key can be the id of a job', async () => {
    const keys: string[] = []
    const added = defineJob({ name: 'added', run: (n: number) => n })
    const job = defineJob({
      name: 'keyed',
      run: (name: string, { step }) =>
        step(name, async ({ key }) => {
          keys.push(key)
          await mill.enqueue(added, 1, { id: key })
        }),
    })
    const mill = testMill({ jobs: [added, job] })
    for (const [id, name] of [
      ['order:1', '2:charge'],
      ['order:1:2', 'charge'],
      ['order', '1:2:charge'],
      ['order:', 'charge'],
      ['other', 'charge'],
      ['order::', 'charge'],
    ] as const)
      await mill.enqueue(job, name, { id })
    await mill.drain()
    expect(keys).toEqual([
      'order::1:2:charge',
      'order::1::2:charge',
      'order:1:2:charge',
      'order:::charge',
      'other:charge',
      'order:::::charge',
    ])
    const refused = await mill.enqueue(job, ':charge')
    await mill.drain()
    expect((await refused.get())?.failure?.message).toMatch(/does not begin with a colon/)
    expect(await mill.job(keys[0] as string).state()).toBe('completed')
  })

  test('names that look numbered do not collide with numbers', async () => {
    const job = defineJob({
      name: 'names',
      run: async (_: null, { step }) => [
        await step('a', () => 1),
        await step('a', () => 2),
        await step('a#2', () => 3),
        await step('a', () => 4),
      ],
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.result()).toEqual([1, 2, 3, 4])
    expect((await handle.steps()).map((step) => step.name)).toEqual(['a', 'a#2', 'a#2#2', 'a#3'])
  })

  test('a handler can heed the error of a step and go on', async () => {
    const job = defineJob({
      name: 'heeds',
      run: async (_: null, { step }) => {
        const how = await step('try', () => Promise.reject(new Error('no'))).catch(
          (error: Error) => error.message,
        )
        return step('other', () => `${how}, so otherwise`)
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.result()).toBe('no, so otherwise')
    expect((await handle.steps()).map((step) => step.name)).toEqual(['other'])
  })

  test('what cannot be kept kills the job, and says which step it was', async () => {
    const job = defineJob({
      name: 'unkept',
      run: (how: 'large' | 'strange', { step }) =>
        step('big', () => (how === 'large' ? 'x'.repeat(1024 * 1024) : { fn: () => {} })),
    })
    const mill = testMill({ jobs: [job] })
    const [large, strange] = [await mill.enqueue(job, 'large'), await mill.enqueue(job, 'strange')]
    await mill.drain()
    expect((await large.get())?.failure).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
    expect((await large.get())?.failure?.message).toMatch(
      /step 'big' is too large: 1048578 bytes, the limit is 1048576/,
    )
    expect((await strange.get())?.failure).toMatchObject({ code: 'PAYLOAD_NOT_SERIALISABLE' })
    expect([await large.state(), await strange.state()]).toEqual(['dead', 'dead'])
  })

  test('steps of a job are bounded in number', async () => {
    const job = defineJob({
      name: 'endless',
      timeout: 0,
      run: async (_: null, { step }) => {
        for (let i = 0; ; i++) await step.until(0, { name: `s${i}` })
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect((await handle.get())?.failure).toMatchObject({ code: 'TOO_MANY_STEPS' })
    expect(await handle.state()).toBe('dead')
  })

  test('steps do not nest, and bad names and options are refused', async () => {
    const errors: unknown[] = []
    const job = defineJob({
      name: 'wrong',
      run: async (_: null, { step }) => {
        const note = (error: unknown) => void errors.push(error)
        await step('outer', () => step('inner', () => 1)).catch(note)
        await step('outer', () => step.sleep('1s')).catch(note)
        await step('with space', () => 1).catch(note)
        await step.sleep('soon').catch(note)
        await step.until(new Date(Number.NaN)).catch(note)
        await step.waitFor('a b').catch(note)
        await step.waitFor('a', { timeuot: 1 } as never).catch(note)
        await step('none', undefined as never).catch(note)
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.state()).toBe('completed')
    expect(errors.every((error) => isMillraceError(error))).toBe(true)
    expect(errors.map((error) => (error as { code: string }).code)).toEqual([
      'INVALID_OPTION',
      'INVALID_OPTION',
      'INVALID_OPTION',
      'INVALID_DELAY',
      'INVALID_OPTION',
      'INVALID_OPTION',
      'INVALID_OPTION',
      'INVALID_OPTION',
    ])
  })

  test('a job that the step of another sets off takes steps of its own', async () => {
    const inner = defineJob({ name: 'inner', run: (_: null, { step }) => step('own', () => 'inner') })
    const outer = defineJob({
      name: 'outer',
      run: (_: null, { step }) =>
        step('set-off', async () => (await mill.enqueue(inner, null)).result({ timeout: '10s' })),
    })
    const mill = realMill({ jobs: [inner, outer] })
    await mill.worker().start()
    expect(await (await mill.enqueue(outer, null)).result({ timeout: '10s' })).toBe('inner')
  })

  test('a batch handler is told that it has none', async () => {
    const batch = defineBatchJob({
      name: 'together',
      maxAttempts: 1,
      run: async (_: number[], { jobs }) => {
        await jobs[0]?.step('x', () => 1)
      },
    })
    const mill = testMill({ jobs: [batch] })
    const job = await mill.enqueue(batch, 1)
    await mill.drain()
    expect((await job.get())?.failure?.message).toMatch(/runs in batches, whose handler has no steps/)
  })

  test('an attempt ends when its steps have, and keeps what they did', async () => {
    const began = signal()
    const go = signal()
    let ran = 0
    const job = defineJob({
      name: 'overlap',
      ...quick,
      run: async (_: null, { step, attempt }) => {
        const slow = step('slow', async () => {
          ran++
          began.give()
          await go.promise
          return 'kept'
        })
        if (attempt === 1) {
          await began.promise
          throw new Error('too early')
        }
        return slow
      },
    })
    const mill = realMill({ jobs: [job] })
    await mill.worker().start()
    const handle = await mill.enqueue(job, null)
    await began.promise
    expect(await handle.state()).toBe('running')
    go.give()
    expect(await handle.result({ timeout: '10s' })).toBe('kept')
    expect(ran).toBe(1)
  })

  test('replay: a dead job goes on where it stood, a fresh one and a completed one begin anew', async () => {
    const done: string[] = []
    let broken = true
    const job = defineJob({
      name: 'replayed',
      run: async (_: null, { step }) => {
        await step('first', () => void done.push('first'))
        await step('second', () => {
          if (broken) throw new NonRetryableError('broken')
          done.push('second')
        })
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.state()).toBe('dead')
    broken = false
    await mill.dead.retry(handle.id)
    await mill.drain()
    expect(done).toEqual(['first', 'second'])
    await mill.dead.retry(handle.id)
    await mill.drain()
    expect(done).toEqual(['first', 'second', 'first', 'second'])
    broken = true
    await mill.dead.retry(handle.id)
    await mill.drain()
    broken = false
    await mill.dead.retry(handle.id, { fresh: true })
    await mill.drain()
    expect(done.slice(4)).toEqual(['first', 'first', 'second'])
  })
})

import { defineBatchJob, defineJob, isMillraceError, NonRetryableError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { realMill, signal, storeOf, testMill } from './mill.js'

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

describe('sleeping', () => {
  test('frees the slot, spends no attempt, and wakes at its time by the store', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'sleeper',
      maxAttempts: 1,
      run: async (_: null, { step, attempt }) => {
        await step('before', () => void log.push('before'))
        await step.sleep('2d')
        await step('after', () => void log.push(`after, attempt ${attempt}, ${mill.clock.now() - start}`))
        return 'rested'
      },
    })
    const mill = testMill({ jobs: [job], worker: { concurrency: 1 } })
    const start = mill.clock.now()
    const waits: unknown[] = []
    mill.on('waiting', ({ until, keys }) => waits.push([until, keys]))
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.get()).toMatchObject({
      state: 'blocked',
      attempt: 0,
      dueAt: new Date(start + 172_800_000),
    })
    expect(waits).toEqual([[new Date(start + 172_800_000), []]])
    expect(await handle.steps()).toMatchObject([
      { name: 'before', waiting: false },
      { name: 'sleep', waiting: true, until: new Date(start + 172_800_000) },
    ])
    await mill.advance('47h')
    expect(log).toEqual(['before'])
    await mill.advance('1h')
    expect(log).toEqual(['before', 'after, attempt 1, 172800000'])
    expect(await handle.result()).toBe('rested')
  })

  test('cannot be swallowed, and nothing after it runs', async () => {
    let after = 0
    const job = defineJob({
      name: 'catcher',
      run: async (_: null, { step }) => {
        try {
          await step.sleep('1h')
        } catch {
          after++
        } finally {
          after++
        }
        return 'woken'
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(after).toBe(0)
    await mill.advance('1h')
    expect(await handle.result()).toBe('woken')
    expect(after).toBe(1)
  })

  test('until: at a time, at once when it is over; twice in a row', async () => {
    const job = defineJob({
      name: 'untils',
      run: async (_: null, { step }) => {
        await step.until(new Date(0))
        await step.until(start + 1_000)
        await step.sleep(1_000)
        return mill.clock.now() - start
      },
    })
    const mill = testMill({ jobs: [job] })
    const start = mill.clock.now()
    const handle = await mill.enqueue(job, null)
    await mill.drain({ later: true })
    expect(await handle.result()).toBe(2_000)
    expect((await handle.steps()).map(({ name, waiting }) => `${name} ${waiting}`)).toEqual([
      'sleep false',
      'sleep#2 false',
      'sleep#3 false',
    ])
  })

  test('a sleep goes on beside steps, which are done first', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'beside',
      run: async (_: null, { step }) => {
        const results = await step.all({
          work: async () => {
            const a = await step('a', () => {
              log.push('a')
              return 1
            })
            return (
              a +
              (await step('b', () => {
                log.push('b')
                return 2
              }))
            )
          },
          rest: step.sleep('1h'),
          plain: () => 'x' as const,
        })
        return results
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(log).toEqual(['a', 'b'])
    expect(await handle.state()).toBe('blocked')
    await mill.advance('1h')
    expect(await handle.result()).toEqual({ work: 3, rest: undefined, plain: 'x' })
    expect(log).toEqual(['a', 'b'])
  })

  test('step.all gives arrays as arrays, and fails when the others are done, not after those that sleep', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'all',
      maxAttempts: 2,
      ...quick,
      run: async (_: null, { step, attempt }) => {
        const empty = await step.all([])
        const [one, two] = await step
          .all([
            () =>
              step('one', () => {
                if (attempt === 1) throw new Error('first part')
                return 1
              }),
            () =>
              step('two', async () => {
                await Promise.resolve()
                log.push('two')
                return 2
              }),
            step.sleep('1h'),
          ])
          .catch((error: Error) => {
            log.push(error.message)
            throw error
          })
        return { empty, one, two }
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.state()).toBe('retrying')
    expect(log).toEqual(['two', 'first part'])
    await mill.drain({ later: true })
    expect(await handle.result()).toEqual({ empty: [], one: 1, two: 2 })
    expect(log).toEqual(['two', 'first part'])
  })

  test('a job that sleeps can be cancelled, removed, and replayed to go on sleeping', async () => {
    const job = defineJob({
      name: 'nap',
      run: async (_: null, { step }) => {
        await step.sleep('1h')
        return 'done'
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.cancel('no')).toBe('cancelled')
    await mill.advance('30m')
    expect(await handle.state()).toBe('cancelled')
    await mill.dead.retry(handle.id)
    await mill.drain()
    expect(await handle.state()).toBe('blocked')
    await mill.advance('30m')
    expect(await handle.result()).toBe('done')
  })
})

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
})

describe('a run that may write no more', () => {
  test('has its step refused and stops', async () => {
    const inStep = signal()
    const go = signal()
    let after = false
    const failures: unknown[] = []
    const job = defineJob({
      name: 'zombie',
      run: async (_: null, { step }) => {
        try {
          await step('slow', async () => {
            inStep.give()
            await go.promise
            return 'stale'
          })
        } catch (error) {
          failures.push(error)
          throw error
        }
        after = true
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    const worker = mill.worker()
    await worker.start()
    const store = storeOf(mill)
    for (let i = 0; (await handle.state()) !== 'running' && i < 100; i++) await mill.clock.advance(0)
    await inStep.promise
    // It is given back as a rescuer would, and stays where it is.
    await mill.queue('default').pause()
    const { worker: holder } = (await handle.get()) as { worker: string }
    mill.clock.jump(60_000)
    const { orphans } = await store.sweep({ limit: 10, keep: { completed: 9, dead: 9 } })
    expect(orphans.map(({ id }) => id)).toEqual([handle.id])
    await store.exchange({
      worker: holder,
      settlements: orphans.map(({ id, token }) => ({ id, token, outcome: released(), inserts: undefined })),
      claim: undefined,
      rescue: true,
    })
    go.give()
    await mill.clock.advance(0)
    expect(failures).toMatchObject([{ code: 'LEASE_LOST' }])
    expect(after).toBe(false)
    expect(await handle.steps()).toEqual([])
    await worker.stop({ grace: 0 })
  })

  test('a timeout applies to the attempt: the next step throws it, and what was done is kept', async () => {
    const done: string[] = []
    const job = defineJob({
      name: 'slow',
      timeout: '1s',
      ...quick,
      run: async (_: null, { step, signal, attempt }) => {
        await step('first', () => void done.push('first'))
        if (attempt === 1) {
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
        }
        await step('second', () => void done.push('second'))
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    const worker = mill.worker()
    await worker.start()
    await mill.clock.advance(5_000)
    await worker.stop()
    expect(done).toEqual(['first', 'second'])
    expect((await handle.attempts()).map(({ failure }) => failure?.code)).toEqual(['JOB_TIMEOUT'])
    expect(await handle.state()).toBe('completed')
  })
})

function released() {
  return {
    to: 'pending',
    spent: false,
    crashed: false,
    delay: 0,
    retain: 0,
    result: undefined,
    failure: undefined,
    reason: undefined,
    excused: false,
    idle: false,
    hold: 0,
    wait: undefined,
  } as const
}

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

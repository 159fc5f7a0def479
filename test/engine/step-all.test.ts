import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

const quick = { backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' } } as const

/** Work that no step knows of: longer than a turn of the event loop. */
const plainWork = () => new Promise<void>((resolve) => setTimeout(resolve, 15))

describe('step.all', () => {
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

  test('a wait that a failed step.all leaves behind holds nothing up', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'given-up',
      maxAttempts: 2,
      ...quick,
      run: async (how: 'return' | 'throw', { step }) => {
        try {
          return await step.all([
            step.waitFor('approval'),
            async () => {
              await step.sleep('1h')
            },
            step('charge', () => {
              throw new Error('declined')
            }),
          ])
        } catch (error) {
          await plainWork()
          log.push(`noted, to ${how}`)
          if (how === 'throw') throw error
          return 'given up'
        }
      },
    })
    const mill = testMill({ jobs: [job] })
    const [returns, throws] = [await mill.enqueue(job, 'return'), await mill.enqueue(job, 'throw')]
    await mill.drain({ later: true })
    expect(await returns.result()).toBe('given up')
    expect(await throws.state()).toBe('dead')
    expect(log.sort()).toEqual(['noted, to return', 'noted, to throw', 'noted, to throw'])
  })

  test('what was left behind counts again when the handler awaits it after all', async () => {
    const job = defineJob({
      name: 'after-all',
      run: async (_: null, { step }) => {
        const approval = step.waitFor<string>('approval')
        const how = await step
          .all([approval, step('charge', () => Promise.reject(new Error('declined')))])
          .catch((error: Error) => error.message)
        await plainWork()
        return `${how}, ${await approval}`
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.state()).toBe('blocked')
    await mill.signal('approval', 'granted')
    await mill.drain()
    expect(await handle.result()).toBe('declined, granted')
  })

  test('a failed one inside of another leaves what the other waits for', async () => {
    const job = defineJob({
      name: 'inner',
      run: async (_: null, { step }) =>
        step.all({
          rest: step.sleep('1h'),
          tries: async () => {
            const failing = step.all([step.waitFor('x'), step('a', () => Promise.reject(new Error('no')))])
            const how = await failing.catch((error: Error) => error.message)
            await plainWork()
            return step('b', () => how)
          },
        }),
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect((await handle.get())?.dueAt).toEqual(new Date(mill.clock.now() + 3_600_000))
    expect((await handle.steps()).map(({ name, waiting }) => `${name} ${waiting}`).sort()).toEqual([
      'b false',
      'sleep true',
      'wait:x true',
    ])
    await mill.advance('1h')
    expect(await handle.result()).toEqual({ rest: undefined, tries: 'no' })
  })

  test('a function is let finish what it does beside its steps, then the job sleeps', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'plain-first',
      run: async (_: null, { step }) =>
        step.all([
          async () => {
            await plainWork()
            return step('a', () => log.push('a'))
          },
          step.sleep('1d'),
          async () => {
            await step.sleep('1h')
            return 'rested'
          },
        ]),
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(log).toEqual(['a'])
    expect(await handle.state()).toBe('blocked')
    await mill.drain({ later: true })
    expect(await handle.result()).toEqual([1, undefined, 'rested'])
  })

  test('the error of a part is told when functions beside it have finished', async () => {
    const log: string[] = []
    const job = defineJob({
      name: 'late-part',
      maxAttempts: 1,
      run: async (_: null, { step }) => {
        const both = step.all([
          step('bad', () => Promise.reject(new Error('bad'))),
          async () => {
            await plainWork()
            await step('good', () => log.push('good'))
          },
        ])
        await both.catch((error: Error) => log.push(error.message))
      },
    })
    const mill = testMill({ jobs: [job] })
    await mill.enqueue(job, null)
    await mill.drain()
    expect(log).toEqual(['good', 'bad'])
  })

  test('parts may wait for a wait that was begun outside of them', async () => {
    const job = defineJob({
      name: 'shared-wait',
      run: async (_: null, { step }) => {
        const approval = step.waitFor<string>('approval')
        const derived = approval.then((by) => `by ${by}`)
        return step.all([async () => `a ${await approval}`, async () => `b ${await derived}`])
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.state()).toBe('blocked')
    await mill.signal('approval', 'ann')
    await mill.drain()
    expect(await handle.result()).toEqual(['a ann', 'b by ann'])
  })

  test('a sleep that nobody awaits yet does not cut short what is done before', async () => {
    let done = 0
    const job = defineJob({
      name: 'awaited-later',
      run: async (_: null, { step }) => {
        const rest = step.sleep('1h')
        await plainWork()
        done++
        await rest
        return mill.clock.now() - start
      },
    })
    const mill = testMill({ jobs: [job] })
    const start = mill.clock.now()
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(done).toBe(1)
    await mill.advance('1h')
    expect(await handle.result()).toBe(3_600_000)
  })
})

describe('step.race', () => {
  test('who wins goes on, and what the others wait for neither parks the job nor swallows its end', async () => {
    const job = defineJob({
      name: 'race',
      run: async (_: null, { step }) => {
        const won = await step.race([step.waitFor<string>('approval'), step('auto', () => 'by rule')])
        await plainWork()
        await step('note', () => 1)
        await plainWork()
        return won
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.result()).toBe('by rule')
  })

  test('the first of several waits wins, and wins again when the others are over too', async () => {
    const job = defineJob({
      name: 'first-wait',
      run: async (key: string, { step }) => {
        const first = await step.race([
          async () => {
            await step.sleep('1h')
            await step('remind', () => reminded++)
            return 'nobody'
          },
          step.waitFor<string>(key),
        ])
        await step.sleep('1d')
        return [first, await step('remind', () => 'own')]
      },
    })
    let reminded = 0
    const mill = testMill({ jobs: [job] })
    const early = await mill.enqueue(job, 'early')
    const late = await mill.enqueue(job, 'late')
    await mill.drain()
    await mill.signal('early', 'ann')
    await mill.drain()
    await mill.advance('2h')
    await mill.signal('late', 'too late')
    await mill.drain({ later: true })
    expect(await early.result()).toEqual(['ann', 'own'])
    expect(await late.result()).toEqual(['nobody', 'own'])
    expect(reminded).toBe(1)
  })

  test('names that the others took stay taken, and they take no more', async () => {
    const ran: string[] = []
    const job = defineJob({
      name: 'names',
      maxAttempts: 2,
      ...quick,
      run: async (_: null, { step, attempt }) => {
        let decide = () => {}
        const decided = new Promise<void>((resolve) => {
          decide = resolve
        })
        const won = await step.race([
          async () => {
            await step('part', () => ran.push('loser 1'))
            await step('part', () => ran.push('loser 2'))
            await decided
            await step('part', () => ran.push('loser 3'))
          },
          async () => {
            for (let i = 0; i < 4; i++) await step(`slow${i}`, () => i)
            return step('part', () => 'winner')
          },
        ])
        decide()
        await plainWork()
        const after = await step('part', () => 'after')
        if (attempt === 1) throw new Error('again')
        return [won, after]
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain({ later: true })
    expect(await handle.result()).toEqual(['winner', 'after'])
    expect(ran).toEqual(['loser 1', 'loser 2'])
  })

  test('a signal that a loser had is not given again', async () => {
    const job = defineJob({
      name: 'had',
      run: async (_: null, { step }) => {
        const first = await step.race([
          async () => step.waitFor<string>('x'),
          async () => step.waitFor<string>('k'),
        ])
        await step.sleep('1h')
        return [first, await step.waitFor<string>('k', { name: 'later', timeout: '1d' })]
      },
    })
    const mill = testMill({ jobs: [job] })
    const told = await mill.enqueue(job, null)
    await mill.signal('x', 'x')
    await mill.signal('k', 'k1')
    await mill.drain()
    await mill.advance('1h')
    expect(await told.state()).toBe('blocked')
    await mill.signal('k', 'k2')
    await mill.drain()
    expect(await told.result()).toEqual(['x', 'k2'])
  })

  test('throws what the first part throws, and is decided anew by a retry', async () => {
    const job = defineJob({
      name: 'lost',
      maxAttempts: 2,
      ...quick,
      run: (_: null, { step, attempt }) =>
        step.race([
          step.waitFor('never'),
          step('try', () => (attempt === 1 ? Promise.reject(new Error('no')) : 'yes')),
        ]),
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain({ later: true })
    expect(await handle.result()).toBe('yes')
    expect((await handle.attempts()).map(({ failure }) => failure?.message)).toEqual(['no'])
  })

  test('refuses no parts, and others than before', async () => {
    const job = defineJob({
      name: 'wrong',
      maxAttempts: 1,
      run: async (_: null, { step }) => {
        const errors: string[] = []
        const note = (error: Error) => void errors.push(error.message)
        await step.race([]).catch(note)
        await step.race('ab' as never).catch(note)
        const parts = runs++ === 0 ? [step.waitFor('x'), step('y', () => 1)] : [step('y', () => 1)]
        await step.race(parts).catch(note)
        await step.sleep('1h')
        return errors
      },
    })
    let runs = 0
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain({ later: true })
    expect(await handle.result()).toMatchObject(
      [/a list of steps/, /a list of steps/, /the one that won was number 2/].map((text) =>
        expect.stringMatching(text),
      ),
    )
  })
})

describe('names that several parts take', () => {
  test('are numbered in the order of the parts while these begin', async () => {
    const job = defineJob({
      name: 'charges',
      run: (_: null, { step }) => step.all(['a', 'b'].map((name) => () => step('charge', () => name))),
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain()
    expect(await handle.result()).toEqual(['a', 'b'])
  })

  test('are refused afterwards, when another run could mistake one for the other', async () => {
    const charged: string[] = []
    const job = defineJob({
      name: 'charges',
      maxAttempts: 1,
      run: (_: null, { step }) =>
        step.all(
          ['a', 'b'].map((name) => async () => {
            await step(`prepare-${name}`, plainWork)
            return step('charge', () => charged.push(name))
          }),
        ),
    })
    const rest = defineJob({
      name: 'rest',
      maxAttempts: 1,
      run: (_: null, { step }) =>
        step.all(
          ['1s', '2s'].map((time) => async () => {
            await step(`prepare-${time}`, plainWork)
            await step.sleep(time)
          }),
        ),
    })
    const mill = testMill({ jobs: [job, rest] })
    const handles = [await mill.enqueue(job, null), await mill.enqueue(rest, null)]
    await mill.drain({ later: true })
    for (const handle of handles)
      expect((await handle.get())?.failure?.message).toMatch(/taken by several parts.*a name of its own/)
    expect(charged).toHaveLength(1)
  })

  test('may come again in groups that follow each other, and inside of one part', async () => {
    const job = defineJob({
      name: 'turns',
      async run(_: null, { step }) {
        const given: unknown[] = []
        for (let turn = 0; turn < 2; turn++)
          given.push(
            await step.all([
              async () => {
                await plainWork()
                await step('a', () => turn)
                return step('a', () => turn)
              },
              () => step.sleep('1h'),
            ]),
          )
        return given
      },
    })
    const mill = testMill({ jobs: [job] })
    const handle = await mill.enqueue(job, null)
    await mill.drain({ later: true })
    expect(await handle.result()).toEqual([
      [0, undefined],
      [1, undefined],
    ])
  })
})

test('a race that threw is lost by the same part whenever the handler runs', async () => {
  const branches: string[] = []
  const job = defineJob({
    name: 'racer',
    async run(_: null, { step }) {
      const fails = () =>
        step('fails', () => {
          throw new Error('it fails')
        })
      const branch = await step.race([fails, () => step.sleep('1m')]).then(
        () => 'slept',
        () => 'failed',
      )
      branches.push(branch)
      await step.sleep('2m', { name: 'rest' })
      return branch
    },
  })
  const mill = testMill({ jobs: [job] })
  const handle = await mill.enqueue(job, null)
  await mill.drain({ later: true })
  expect(await handle.result()).toBe('failed')
  expect(new Set(branches)).toEqual(new Set(['failed']))
})

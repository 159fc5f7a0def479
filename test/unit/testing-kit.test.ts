import { defineJob, NonRetryableError, snooze } from 'millrace'
import { runJob, TestMill, VirtualClock } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

const remind = defineJob({
  name: 'remind',
  input: z.object({ user: z.string(), text: z.string().default('hello') }),
  run: ({ user, text }) => `${text} ${user}`,
})

const signUp = defineJob({
  name: 'sign-up',
  run: async ({ user }: { user: string }, { enqueue, progress, log }) => {
    progress(50)
    log(`welcome ${user}`)
    await enqueue(remind, { user }, { delay: '1d' })
    return 'ok'
  },
})

describe('TestMill', () => {
  test('runs a day in no time', async () => {
    const mill = new TestMill({ jobs: [signUp, remind] })
    await mill.enqueue(signUp, { user: 'ann' })
    await mill.drain()
    const [reminder] = await mill.assertEnqueued(remind, { user: 'ann' }, 1)
    expect(reminder?.state).toBe('scheduled')
    await mill.advance('23h')
    expect(await mill.job(reminder?.id ?? '').state()).toBe('scheduled')
    await mill.advance('1h')
    expect(await mill.job(reminder?.id ?? '', remind).result()).toBe('hello ann')
    await mill.close()
  })

  test('inline mode runs the job, and what it leads to, before enqueue returns', async () => {
    const order: string[] = []
    const second = defineJob({ name: 'second', run: () => void order.push('second') })
    const first = defineJob({
      name: 'first',
      run: async (_: null, { enqueue }) => {
        order.push('first')
        await enqueue(second, null)
      },
    })
    const mill = new TestMill({ jobs: [first, second], inline: true })
    const job = await mill.enqueue(first, null)
    expect(order).toEqual(['first', 'second'])
    expect(await job.state()).toBe('completed')
    await mill.close()
  })

  test('takes limits of queues and limiters, and waits for them in virtual time', async () => {
    const at: number[] = []
    const work = defineJob({
      name: 'work',
      limiter: 'api',
      run: () => void at.push(mill.clock.now() - start),
    })
    const mill: TestMill = new TestMill({
      jobs: [work],
      queues: { default: { depth: { max: 3 } } },
      limiters: { api: { max: 1, per: '1s' } },
    })
    const start = mill.clock.now()
    await mill.enqueueMany(work, [1, 2, 3])
    await expect(mill.enqueue(work, 4)).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    await mill.advance('900ms')
    expect(at).toEqual([0])
    await mill.advance('2s')
    expect(at.length).toBe(3)
    await mill.close()
  })

  test('says what was enqueued when the assertion fails', async () => {
    const mill = new TestMill({ jobs: [remind] })
    await mill.enqueue(remind, { user: 'ann' })
    await expect(mill.assertEnqueued(remind, { user: 'bob' })).rejects.toThrow(/found 0 of 1/)
    await mill.assertEnqueued(remind, { user: 'bob' }, 0)
    await mill.close()
  })

  test('a handler that never ends fails the drain instead of hanging the test', async () => {
    const stuck = defineJob({ name: 'stuck', run: () => new Promise(() => {}) })
    const mill = new TestMill({ jobs: [stuck] })
    await mill.enqueue(stuck, null)
    await expect(mill.drain({ timeout: 50 })).rejects.toThrow(/1 jobs still run/)
    await mill.close()
  })
})

describe('runJob', () => {
  test('gives back all that the handler did', async () => {
    expect(await runJob(signUp, { user: 'ann' })).toMatchObject({
      state: 'completed',
      result: 'ok',
      progress: [50],
      logs: [{ level: 'info', text: 'welcome ann' }],
      enqueued: [{ name: 'remind', input: { user: 'ann' } }],
    })
  })

  test('checks the input and classifies errors', async () => {
    const moody = defineJob({
      name: 'moody',
      input: z.enum(['fail', 'refuse', 'sleep']),
      maxAttempts: 2,
      run: (mood) => {
        if (mood === 'refuse') throw new NonRetryableError('never')
        if (mood === 'sleep') return snooze('5m')
        throw new Error('again')
      },
    })
    expect(await runJob(moody, 'fail')).toMatchObject({ state: 'retrying', delay: 500 })
    expect(await runJob(moody, 'fail', { attempt: 2 })).toMatchObject({ state: 'dead' })
    expect(await runJob(moody, 'refuse')).toMatchObject({ state: 'dead', failure: { message: 'never' } })
    expect(await runJob(moody, 'sleep')).toMatchObject({ state: 'scheduled', delay: 300_000 })
    expect(await runJob(moody, 'odd' as never)).toMatchObject({
      state: 'dead',
      failure: { code: 'INVALID_INPUT' },
    })
  })
})

test('virtual time fires timers in order, far ones too', async () => {
  const clock = new VirtualClock(0)
  const fired: number[] = []
  for (const ms of [30, 10, 2 ** 40]) clock.after(ms, () => fired.push(clock.now()))
  clock.after(20, () => clock.after(5, () => fired.push(clock.now())))
  const cancel = clock.after(15, () => fired.push(-1))
  cancel()
  await clock.advance(100)
  expect(fired).toEqual([10, 25, 30])
  await clock.advance(2 ** 40)
  expect(fired.at(-1)).toBe(2 ** 40)
})

test('virtual time stands still while an answer is awaited, but not for one that never comes', async () => {
  const clock = new VirtualClock(0)
  const heard: string[] = []
  clock.after(1, () => {
    const call = new Promise((resolve) => setTimeout(resolve, 30)).then(() =>
      heard.push(`call ${clock.now()}`),
    )
    clock.waitFor(call)
  })
  clock.after(2, () => heard.push(`timer ${clock.now()}`))
  await clock.advance(10)
  expect(heard).toEqual(['call 1', 'timer 2'])
  clock.waitFor(new Promise(() => {}))
  await clock.advance(10)
  expect(clock.now()).toBe(20)
})

describe('runJob with steps', () => {
  const order = defineJob({
    name: 'order',
    run: async (n: number, { step }) => {
      const charge = await step('charge', () => n * 2)
      await step.sleep('1h')
      const word = await step.waitFor<string>('word', { timeout: '1d' })
      return { charge, word }
    },
  })

  test('tells what it waits for, and takes what earlier runs gave', async () => {
    const first = await runJob(order, 4)
    expect(first).toMatchObject({ state: 'blocked', steps: { charge: 8 }, waits: { keys: [] } })
    expect(first.waits?.until).toBeInstanceOf(Date)
    const second = await runJob(order, 4, { steps: { ...first.steps, sleep: undefined } })
    expect(second).toMatchObject({ state: 'blocked', waits: { keys: ['word'] } })
    const third = await runJob(order, 4, { steps: { charge: 7, sleep: undefined, 'wait:word': 'yes' } })
    expect(third).toMatchObject({ state: 'completed', result: { charge: 7, word: 'yes' }, waits: undefined })
    const late = await runJob(order, 4, { steps: { charge: 7, sleep: undefined, 'wait:word': undefined } })
    expect(late.result).toEqual({ charge: 7, word: undefined })
  })
})

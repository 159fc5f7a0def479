/** Inputs change their form from one deploy to the next, and both may be at work on the same jobs. */
import { defineBatchJob, defineJob, NonRetryableError } from 'millrace'
import { runJob } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { storeOf, testMill } from './mill.js'

/** How the same job was defined once. */
const old = defineJob({ name: 'greet', run: (name: string) => `0: ${name}` })
const first = defineJob({ name: 'greet', version: 1, run: ({ name }: { name: string }) => `1: ${name}` })

const upgrades: unknown[] = []
const second = defineJob({
  name: 'greet',
  version: 2,
  input: z.object({ first: z.string(), last: z.string().default('?') }),
  upgrade: (input, from) => {
    upgrades.push([input, from])
    const name = from === 0 ? (input as string) : (input as { name: string }).name
    if (name === '') throw new Error('nobody')
    return name === 'later' ? Promise.resolve({ first: name }) : { first: name }
  },
  run: ({ first, last }) => `2: ${first} ${last}`,
})

describe('typed inputs evolve', () => {
  test('jobs of older deploys are upgraded before they are parsed, those of today are not', async () => {
    upgrades.length = 0
    const mill = testMill({ jobs: [second] })
    const jobs = [
      await mill.enqueue(old, 'ann'),
      await mill.enqueue(first, { name: 'bob' }),
      await mill.enqueue(first, { name: 'later' }),
      await mill.enqueue(second, { first: 'cid', last: 'x' }),
    ]
    await mill.drain()
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([
      '2: ann ?',
      '2: bob ?',
      '2: later ?',
      '2: cid x',
    ])
    expect(upgrades).toEqual([
      ['ann', 0],
      [{ name: 'bob' }, 1],
      [{ name: 'later' }, 1],
    ])
  })

  test('the version stays with the options of an enqueue, in batches and from handlers', async () => {
    const adds = defineJob({
      name: 'adds',
      run: async (_: null, { enqueue }) => [
        await enqueue(second, { first: 'a' }),
        await enqueue(first, { name: 'b' }),
      ],
    })
    const mill = testMill({ jobs: [second, adds] })
    const delayed = await mill.enqueue(first, { name: 'c' }, { delay: '1s', timeout: '5s' })
    const many = await mill.enqueueMany(second, [{ first: 'd' }], { tags: ['x'] })
    const added = await mill.enqueue(adds, null)
    await mill.drain({ later: true })
    expect(await delayed.result()).toBe('2: c ?')
    expect(await many[0]?.result()).toBe('2: d ?')
    const ids = await added.result()
    expect(await Promise.all(ids.map((id) => mill.job(id).result()))).toEqual(['2: a ?', '2: b ?'])
  })

  test('a job of a newer deploy is put off for a worker that knows it, and spends no attempt', async () => {
    for (const older of [old, first]) {
      const mill = testMill({ jobs: [older] })
      const unknown: string[] = []
      mill.on('unknown', ({ id }) => unknown.push(id))
      const job = await mill.enqueue(second, { first: 'ann' })
      const known = await mill.enqueue(older as typeof old, { name: 'bob' } as never)
      await mill.drain()
      expect(unknown).toEqual([job.id])
      expect(await known.state()).toBe('completed')
      const snapshot = await job.get()
      expect([snapshot?.state, snapshot?.attempt]).toEqual(['scheduled', 0])
      expect(snapshot?.dueAt?.getTime()).toBe(mill.clock.now() + 10_000)
    }
  })

  test('an upgrade that throws kills the job at once, with a word', async () => {
    const mill = testMill({ jobs: [second] })
    const job = await mill.enqueue(old, '')
    await mill.drain()
    const snapshot = await job.get()
    expect([snapshot?.state, snapshot?.attempt, snapshot?.failure?.code]).toEqual([
      'dead',
      1,
      'UPGRADE_FAILED',
    ])
    expect(snapshot?.failure?.message).toBe(
      "upgrade of job 'greet' threw 'nobody' for an input of version 0; it must know every version before 2",
    )
    const rejects = defineJob({
      name: 'greet',
      version: 3,
      upgrade: () => Promise.reject(new NonRetryableError('gone')),
      run: () => {},
    })
    const other = testMill({ jobs: [rejects] })
    const gone = await other.enqueue(old, 'x')
    await other.drain()
    expect((await gone.get())?.failure?.code).toBe('UPGRADE_FAILED')
  })

  test('what an upgrade gives must fit the schema', async () => {
    const strict = defineJob({
      name: 'greet',
      version: 1,
      input: z.object({ name: z.string() }),
      upgrade: (input) => ({ name: input as string }),
      run: ({ name }) => name,
    })
    const mill = testMill({ jobs: [strict] })
    const loose = defineJob({ name: 'greet', run: (n: number) => n })
    const job = await mill.enqueue(loose, 5)
    await mill.drain()
    expect((await job.get())?.failure?.code).toBe('INVALID_INPUT')
  })

  test('without upgrade an older input is parsed as it is', async () => {
    const mill = testMill({ jobs: [first] })
    const job = await mill.enqueue(old, { name: 'ann' } as never)
    await mill.drain()
    expect(await job.result()).toBe('1: ann')
  })

  test('an edited input has today’s form, any other replay keeps the one that it has', async () => {
    upgrades.length = 0
    const mill = testMill({ jobs: [second] })
    const edited = await mill.enqueue(old, '', { timeout: '7s' })
    const kept = await mill.enqueue(first, { name: '' })
    await mill.drain()
    upgrades.length = 0
    await mill.dead.retry(edited.id, { input: { first: 'ann' } })
    await mill.dead.retry(kept.id, { timeout: '9s' })
    await mill.drain()
    expect(await edited.result()).toBe('2: ann ?')
    expect(upgrades).toEqual([[{ name: '' }, 1]])
    const overrides = async (id: string) => JSON.parse((await storeOf(mill).get([id]))[0]?.overrides ?? '')
    expect(await overrides(edited.id)).toEqual({ timeout: 7_000, version: 2 })
    expect(await overrides(kept.id)).toEqual({ timeout: 9_000, version: 1 })
  })

  test('batches upgrade each of their jobs; one that `by` does not know runs by itself', async () => {
    const calls: string[][] = []
    const make = (by?: (input: { to: string }) => string) =>
      defineBatchJob({
        name: 'mail',
        version: 1,
        batch: { wait: 10, ...(by && { by }) },
        upgrade: (input) => ({ to: (input as string).toUpperCase() }),
        run: (mails: { to: string }[]) => void calls.push(mails.map(({ to }) => to)),
      })
    const before = defineJob({ name: 'mail', run: (_: string) => {} })
    for (const mail of [make(), make(({ to }) => to.slice(0, 1))]) {
      const mill = testMill({ jobs: [mail] })
      await mill.enqueue(before, 'a')
      await mill.enqueueMany(mail, [{ to: 'b1' }, { to: 'b2' }])
      await mill.drain()
      expect((await mill.stats()).states.completed).toBe(3)
    }
    expect(calls.map((call) => call.sort())).toEqual([['A', 'b1', 'b2'], ['A'], ['b1', 'b2']])
  })

  test('runJob takes an input of today, or of the version that it is told', async () => {
    expect((await runJob(second, { first: 'ann' })).result).toBe('2: ann ?')
    expect((await runJob(second, { name: 'bob' } as never, { version: 1 })).result).toBe('2: bob ?')
    expect((await runJob(second, '' as never, { version: 0 })).failure?.code).toBe('UPGRADE_FAILED')
  })

  test('wrong options are refused with a word', () => {
    const run = () => {}
    for (const version of [0, -1, 1.5, Number.NaN, '1'])
      expect(() => defineJob({ name: 'x', version: version as number, run })).toThrow('version')
    expect(() => defineJob({ name: 'x', upgrade: () => null, run })).toThrow('beside `upgrade`')
    expect(() => defineJob({ name: 'x', version: 1, upgrade: 5 as never, run })).toThrow(
      'a function (input, from)',
    )
  })
})

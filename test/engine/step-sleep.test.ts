import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

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

import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { outcomeOf } from '../outcome.js'
import { signal, storeOf, testMill } from './mill.js'

const quick = { backoff: { type: 'fixed', initialDelay: '1s', jitter: 'none' } } as const

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
      settlements: orphans.map(({ id, token }) => ({
        id,
        token,
        outcome: outcomeOf({ to: 'pending', spent: false }),
        inserts: undefined,
      })),
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

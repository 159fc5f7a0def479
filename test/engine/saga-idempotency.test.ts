import { defineSaga } from 'millrace/saga'
import { describe, expect, test } from 'vitest'
import { enqueued, no, quick } from './faulty-sagas.js'
import { makeFragile } from './flow-jobs.js'
import { replay, storeOf, testMill } from './mill.js'

describe('a saga with an idempotency key', () => {
  const keyed = (log: string[], undoFails = () => false) =>
    defineSaga<{ key: string; fails?: boolean }>({
      name: 'keyed',
      ...quick,
      compensation: { maxAttempts: 1 },
      idempotency: { key: ({ key }) => key },
      steps: [
        {
          name: 'a',
          run: ({ jobId }) => void log.push(`${jobId} a`),
          compensate: ({ jobId }) => {
            log.push(`${jobId} undo a`)
            if (undoFails()) throw new Error('down')
          },
        },
        { name: 'b', run: ({ input }) => (input.fails ? no() : 'b'), compensate: () => {} },
      ],
    })

  /** The first one died, because its only completed step could not be undone. */
  async function diedHalfUndone(undoFails: () => boolean) {
    const log: string[] = []
    const definition = keyed(log, undoFails)
    const mill = testMill({ jobs: [definition] })
    const first = await mill.enqueue(definition, { key: 'k', fails: true }, { id: 'first' })
    await mill.drain()
    expect(await first.state()).toBe('dead')
    return { mill, log, definition, first }
  }

  test('is cancelled while it waits for the key', async () => {
    const log: string[] = []
    const definition = keyed(log)
    const { mill, job } = await enqueued(definition, { key: 'k' })
    await storeOf(mill).guard({ do: 'begin', key: 'keyed:k', holder: 'me', lease: 3_600_000 })
    await mill.drain()
    expect(await job.state()).toBe('scheduled')
    expect(await job.cancel('no')).toBe('cancelled')
    expect(await job.get()).toMatchObject({ state: 'cancelled', cancelReason: 'no' })
    expect(log).toEqual([])
  })

  test('lets go of its key when a child has kept it from beginning, in its first life or a later one', async () => {
    const log: string[] = []
    const definition = keyed(log)
    const { fragile } = makeFragile()
    const mill = testMill({ jobs: [definition, fragile] })
    const children = [{ job: fragile, input: null }]
    const first = await mill.flow({ job: definition, input: { key: 'k' }, children }, { id: 'first' })
    await mill.job('first.0000001').cancel('no')
    await mill.drain()
    expect(await first.state()).toBe('cancelled')
    for (const id of ['first.0000001', 'first']) await replay(mill, id)
    await mill.advance('1h')
    expect((await first.get())?.failure?.code).toBe('CHILD_FAILED')
    const second = await mill.enqueue(definition, { key: 'k' }, { id: 'second' })
    await mill.drain()
    expect([await second.state(), log]).toEqual(['completed', ['second a']])
  })

  test('keeps its key when it dies with something done, until it has ended in a later life', async () => {
    let down = true
    const { mill, log, definition, first } = await diedHalfUndone(() => down)
    const second = await mill.enqueue(definition, { key: 'k' }, { id: 'second' })
    await mill.advance('5m')
    expect(await second.state()).toBe('scheduled')
    down = false
    await mill.dead.retry('first')
    await mill.advance('5m')
    expect([await first.state(), await second.state()]).toEqual(['cancelled', 'completed'])
    expect(log).toEqual(['first a', 'first undo a', 'first undo a', 'second a'])
  })

  for (const onFailure of ['fail', 'compensate'] as const) {
    test(`lets go of its key when it dies of a child before it began: ${onFailure}`, async () => {
      const log: string[] = []
      const definition = keyed(log)
      const { fragile, mend } = makeFragile()
      const mill = testMill({ jobs: [definition, fragile] })
      const children = [{ job: fragile, input: null, onFailure }]
      const add = (id: string) => mill.flow({ job: definition, input: { key: 'k' }, children }, { id })
      const first = await add('first')
      await mill.drain()
      await mill.dead.retry('first.0000001')
      await mill.drain()
      expect(await first.state()).toBe('dead')
      mend()
      const second = await add('second')
      await mill.drain()
      expect([await second.state(), log]).toEqual(['completed', ['second a']])
      await mill.dead.retry('first.0000001')
      await mill.drain({ later: true })
      expect(await first.state()).toBe(onFailure === 'fail' ? 'completed' : 'dead')
      expect(log, 'the other has done it').toEqual(['second a'])
    })
  }

  test('undoes what it did though another has completed under the key that it has now', async () => {
    let down = true
    const { mill, log, definition, first } = await diedHalfUndone(() => down)
    const second = await mill.enqueue(definition, { key: 'other' }, { id: 'second' })
    await mill.drain()
    expect(await second.state()).toBe('completed')
    down = false
    await mill.dead.retry('first', { input: { key: 'other', fails: true } })
    await mill.drain({ later: true })
    expect(await first.state()).toBe('cancelled')
    expect(log).toEqual(['first a', 'first undo a', 'second a', 'first undo a'])
    const third = await mill.enqueue(definition, { key: 'other' }, { id: 'third' })
    await mill.drain()
    expect(await third.result()).toEqual({ a: undefined, b: 'b' })
    expect(log).toHaveLength(4)
  })
})

import { defineJob, Millrace } from 'millrace'
import { defineSaga } from 'millrace/saga'
import { describe, expect, test } from 'vitest'
import { enqueued, no, quick } from './faulty-sagas.js'
import { storeOf, testMill } from './mill.js'

describe('a retry', () => {
  test('of a saga that was undone is refused unless it is fresh', async () => {
    let works = false
    const runs: string[] = []
    const order = defineSaga({
      name: 'order',
      steps: [
        {
          name: 'pay',
          run: () => (works ? void runs.push('pay') : no()),
          compensate: () => void runs.push('undo'),
        },
      ],
    })
    const { mill, job } = await enqueued(order, {})
    await mill.drain()
    const refused = mill.dead.retry(job.id)
    await expect(refused).rejects.toMatchObject({ code: 'SAGA_COMPENSATED' })
    await expect(refused).rejects.toThrow(/enqueue a new one, .* or retry with fresh: true/)
    works = true
    await mill.dead.retry(job.id, { fresh: true })
    await mill.drain()
    expect([await job.state(), runs]).toEqual(['completed', ['undo', 'pay']])
  })

  test('cannot give a saga other attempts, also where its definition is not known', async () => {
    const order = defineSaga({
      name: 'order',
      maxAttempts: 1,
      steps: [{ name: 'ship', run: no, irreversible: true }],
    })
    const plain = defineJob({ name: 'plain', maxAttempts: 1, run: no })
    const mill = testMill({ jobs: [order, plain] })
    const job = await mill.enqueue(order, {})
    const other = await mill.enqueue(plain, {})
    await mill.drain()
    const stranger = new Millrace({ store: storeOf(mill) })
    await expect(stranger.dead.retry(job.id, { maxAttempts: 2 })).rejects.toThrow(/'order' is a saga/)
    await expect(mill.dead.retry(job.id, { maxAttempts: 2 })).rejects.toThrow(/'order' is a saga/)
    await mill.dead.retry(other.id, { maxAttempts: 2 })
  })
})

describe('a saga that is to be done again, and is cancelled before it is', () => {
  const twoSteps = (log: string[], fails: () => boolean) =>
    defineSaga({
      name: 'two',
      ...quick,
      maxAttempts: 1,
      steps: [
        { name: 'a', run: () => void log.push('a'), compensate: () => void log.push('undo a') },
        { name: 'b', irreversible: true, run: () => void log.push('b') },
        { name: 'c', irreversible: true, run: () => (fails() ? no() : void log.push('c')) },
      ],
    })

  for (const [what, fails, fresh] of [
    ['completed', false, false],
    ['died, and begins afresh', true, true],
  ] as const) {
    test(`undoes nothing of what it did when it ${what}`, async () => {
      const log: string[] = []
      const definition = twoSteps(log, () => fails)
      const { mill, job } = await enqueued(definition, {})
      await mill.drain({ later: true })
      expect(await job.state()).toBe(fails ? 'dead' : 'completed')
      const done = [...log]
      await mill.dead.retry(job.id, { delay: '1h', fresh })
      expect(await job.cancel('by mistake')).toBe('cancelled')
      await mill.drain({ later: true })
      expect(log).toEqual(done)
    })
  }
})

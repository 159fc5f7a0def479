/** Compensation that comes late: below a cancelled job some still run, and what was undone is replayed. */
import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { realMill, signal, testMill } from './mill.js'

test('a job that is busy below a cancelled one is undone with the others, when it has ended', async () => {
  const undone: string[] = []
  const begun = signal()
  const mayEnd = signal()
  const undo = defineJob({
    name: 'undo',
    run: ({ input }: { input: string; result: string }) => void undone.push(input),
  })
  const quick = defineJob({ name: 'quick', run: (input: string) => input })
  const slow = defineJob({
    name: 'slow',
    // It does not mind being told to stop.
    async run(input: string) {
      begun.give()
      await mayEnd.promise
      return input
    },
  })
  const mill = realMill({ jobs: [undo, quick, slow] })
  await mill.worker({ handleSignals: false, poll: '20ms' }).start()
  const flow = await mill.flow({
    job: quick,
    input: 'trip',
    children: [
      { job: quick, input: 'flight', compensate: undo },
      {
        job: quick,
        input: 'hotel',
        onFailure: 'compensate',
        children: [{ job: slow, input: 'room', compensate: undo }],
      },
    ],
  })
  await begun.promise
  const hotel = (await flow.graph()).nodes.find(({ id, after }) => id !== flow.id && after.length > 0)
  await mill.job(hotel?.id as string).cancel()
  const states: string[] = []
  for await (const { state } of flow.watch()) {
    if (states.at(-1) !== state) states.push(state)
    if (state === 'scheduled') mayEnd.give()
    if (state === 'dead') break
  }
  await mill.queue('default').drain()
  expect(states).toContain('scheduled')
  expect(undone).toEqual(['room', 'flight'])
})

describe('what was undone', () => {
  const undone: string[] = []
  let isBroken = true
  const undo = defineJob({
    name: 'undo',
    run: ({ result }: { input: string; result: string }) => void undone.push(result),
  })
  let charges = 0
  const charge = defineJob({ name: 'charge', run: (_: string) => `tx${++charges}` })
  const stock = defineJob({
    name: 'stock',
    maxAttempts: 1,
    run(_: string) {
      if (isBroken) throw new Error('none left')
    },
  })
  const shipped: string[] = []
  const ship = defineJob({ name: 'ship', run: (input: string) => void shipped.push(input) })
  const order = (others: number) => ({
    job: ship,
    input: 'order',
    children: [
      { job: charge, input: 'card', compensate: undo },
      ...Array.from({ length: others }, () => ({ job: stock, input: 'mail' })),
      { job: stock, input: 'book', onFailure: 'compensate' as const },
    ],
  })

  test('never counts as done, whatever is replayed; done again, it is undone again', async () => {
    isBroken = true
    const mill = testMill({ jobs: [undo, charge, stock, ship] })
    const flow = await mill.flow(order(0), { id: 'order' })
    await mill.drain()
    expect((await flow.get())?.failure?.code).toBe('COMPENSATED')
    expect(undone.splice(0)).toEqual(['tx1'])
    isBroken = false
    await mill.clock.advance(1_000)
    await mill.dead.retryAll()
    await mill.drain()
    expect(await flow.state()).toBe('dead')
    expect((await flow.get())?.failure?.message).toMatch(/was undone when it died/)
    expect([shipped, undone]).toEqual([[], []])
    isBroken = true
    await mill.clock.advance(1_000)
    for (const id of ['order.0000001', 'order.0000002', 'order']) await mill.dead.retry(id)
    await mill.drain()
    expect([await flow.state(), shipped, undone.splice(0)]).toEqual(['dead', [], ['tx2']])
  })

  test('is found among any number of others that failed', async () => {
    isBroken = true
    charges = 0
    const mill = testMill({ jobs: [undo, charge, stock, ship], worker: { concurrency: 50 } })
    await mill.flow(order(1_200), { id: 'order' })
    await mill.drain()
    expect(undone).toEqual(['tx1'])
  })
})

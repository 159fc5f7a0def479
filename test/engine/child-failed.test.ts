import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

let isBroken = true
const charge = defineJob({
  name: 'charge',
  maxAttempts: 1,
  run(text: string) {
    if (isBroken) throw new Error(text)
  },
})
const pass = defineJob({ name: 'pass', run(_: null) {} })
const undo = defineJob<{ input: null; result: unknown }>({ name: 'undo', run() {} })

const link = { job: pass, input: null }
const declined = { job: charge, input: 'card declined' }

describe('jobs that die of each other', () => {
  test('are no canaries, because a replay cannot mend them, unless there are no others', async () => {
    isBroken = true
    const mill = testMill({ jobs: [charge, pass] })
    await mill.chain([declined, link, link], { id: 'c' })
    await mill.drain()
    isBroken = false
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const hopeless = mill.dead.retryAll({ name: 'pass' }, { canary: 1 })
    await mill.clock.advance(3_000)
    expect(await hopeless).toMatchObject({ retried: 1, stopped: true })
    const all = mill.dead.retryAll({}, { canary: 2 })
    await mill.clock.advance(3_000)
    expect(await all).toMatchObject({ canaries: ['c.0000002'], stopped: false })
    await mill.clock.advance(3_000)
    expect(await mill.job('c').state()).toBe('completed')
    await worker.stop()
  })

  test('all name the one that failed by itself, and what of, once', async () => {
    isBroken = true
    const mill = testMill({ jobs: [charge, pass] })
    const chain = await mill.chain([declined, link, link, link], { id: 'c' })
    await mill.drain()
    const root = { id: 'c.0000003', name: 'charge', message: 'card declined' }
    const failureOf = async (id: string) => (await mill.job(id).get())?.failure
    expect(await failureOf('c.0000002')).toMatchObject({
      code: 'CHILD_FAILED',
      message:
        "child c.0000003 ('charge') died: card declined; retry the child, and this job waits for it again",
      root,
    })
    expect(await failureOf('c')).toMatchObject({
      code: 'CHILD_FAILED',
      message:
        "child c.0000001 ('pass') died of c.0000003 ('charge'): card declined; retry c.0000003, and this job waits for it again",
      root,
    })
    isBroken = false
    await mill.dead.retry(root.id)
    await mill.drain()
    expect(await chain.state()).toBe('completed')
  })

  test('are one group, whatever their depth, definition and flow; what they died of is another', async () => {
    isBroken = true
    const finish = defineJob({ name: 'finish', run(_: null) {} })
    const mill = testMill({ jobs: [charge, pass, finish] })
    await mill.chain([declined, link, link, { job: finish, input: null }], { id: 'of-ada' })
    await mill.chain([declined, link], { id: 'of-bob' })
    await mill.flow({ job: finish, input: null, children: [declined] }, { id: 'of-cy' })
    await mill.drain()
    const groups = await mill.dead.groups()
    expect(groups.map(({ count }) => count).sort()).toEqual([3, 5])
    const [own] = groups.filter(({ name }) => name === 'charge')
    expect(own).toMatchObject({ message: 'card declined', count: 3 })

    isBroken = false
    expect(await mill.dead.retryAll({ cause: own?.cause ?? '' })).toMatchObject({ retried: 3 })
    await mill.drain()
    expect(await mill.dead.groups()).toEqual([])
  })

  test('of other things are other groups', async () => {
    isBroken = true
    const mill = testMill({ jobs: [charge, pass] })
    await mill.chain([declined, link])
    await mill.chain([{ job: charge, input: 'no such card' }, link])
    await mill.drain()
    expect((await mill.dead.groups()).map(({ count }) => count)).toEqual([1, 1, 1, 1])
  })

  test('keep little of a long message', async () => {
    isBroken = true
    const mill = testMill({ jobs: [charge, pass] })
    const chain = await mill.chain([{ job: charge, input: 'x'.repeat(10_000) }, link, link])
    await mill.drain()
    const failure = (await chain.get())?.failure
    expect(failure?.message.length).toBeLessThan(1_000)
    expect(failure?.message).toMatch(/waits for it again$/)
  })

  test('name who undid its children, which is the one to retry', async () => {
    isBroken = true
    const mill = testMill({ jobs: [charge, pass, undo] })
    const part = (onFailure: 'compensate' | 'fail', ...children: object[]) => ({
      ...link,
      onFailure,
      children,
    })
    const inner = part('compensate', { ...declined, onFailure: 'compensate' }, { ...link, compensate: undo })
    await mill.flow(part('fail', part('fail', part('fail', inner))) as never, { id: 'f' })
    const alone = await mill.flow({ ...link, children: [{ ...declined, onFailure: 'compensate' }] })
    await mill.drain()
    expect((await alone.get())?.failure?.message).toMatch(/died: card declined; nothing had to be undone$/)
    const failureOf = async (n: number) => (await mill.job(n === 0 ? 'f' : `f.000000${n}`).get())?.failure
    expect(await failureOf(3)).toMatchObject({
      code: 'COMPENSATED',
      message: "child f.0000004 ('charge') died: card declined; what undoes the others was added",
      root: { id: 'f.0000004' },
    })
    expect(await failureOf(2)).toMatchObject({
      code: 'COMPENSATED',
      message: "child f.0000003 ('pass') died: card declined; what undoes the others was added",
    })
    expect(await failureOf(0)).toMatchObject({
      code: 'CHILD_FAILED',
      message:
        "child f.0000001 ('pass') died of f.0000002 ('pass'): card declined; retry f.0000002, and this job waits for it again",
      root: { id: 'f.0000002', message: 'card declined' },
    })
  })

  test('of their own steps and reads of results as well', async () => {
    isBroken = true
    const fans = defineJob({
      name: 'fans',
      run: (_: null, { step }) => step.children('parts', charge, ['card declined']),
    })
    const reads = defineJob({ name: 'reads', run: (_: null, { resultOf }) => resultOf(fans) })
    const mill = testMill({ jobs: [charge, fans, reads, pass] })
    const child = { job: fans, input: null, onFailure: 'continue' } as const
    await mill.chain([child, { job: reads, input: null }, link], { id: 'c' })
    await mill.drain()
    const [charged] = await mill.enqueued(charge)
    const root = { id: charged?.id, name: 'charge', message: 'card declined' }
    for (const id of ['c.0000002', 'c.0000001', 'c'])
      expect((await mill.job(id).get())?.failure).toMatchObject({ code: 'CHILD_FAILED', root })
    expect((await mill.dead.groups()).map(({ count }) => count).sort()).toEqual([1, 3])
  })
})

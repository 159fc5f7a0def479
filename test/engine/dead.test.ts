import { defineJob } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

interface Order {
  id: number
  fixed?: boolean
}

/** Orders below 5 fail of one cause, the others of another; fixed ones pass. */
function shop() {
  let healed = false
  const charge = defineJob({
    name: 'charge',
    maxAttempts: 1,
    queue: 'payments',
    run: ({ id, fixed }: Order) => {
      if (fixed || healed) return `charged ${id}`
      throw id < 5 ? new TypeError(`order ${id} has no card`) : new RangeError(`gateway said ${500 + id}`)
    },
  })
  const mill = testMill({ jobs: [charge] })
  return { mill, charge, heal: () => (healed = true) }
}

const orders = Array.from({ length: 12 }, (_, id) => ({ id }))

describe('dead letters', () => {
  test('are listed by name and time, newest first, page by page', async () => {
    const { mill, charge } = shop()
    await mill.enqueueMany(charge, orders)
    await mill.drain()
    const noon = mill.clock.now() + 3_600_000
    await mill.clock.advance(7_200_000)
    await mill.enqueueMany(charge, [{ id: 100 }])
    await mill.drain()
    const seen: unknown[] = []
    let cursor: string | undefined
    do {
      const page = await mill.dead.list({ name: 'charge' }, { limit: 5, cursor })
      seen.push(...page.jobs.map((job) => job.input))
      cursor = page.cursor
    } while (cursor !== undefined)
    expect(seen).toHaveLength(13)
    expect(seen[0]).toEqual({ id: 100 })
    expect((await mill.dead.list({ after: new Date(noon) })).jobs).toHaveLength(1)
    expect((await mill.dead.list({ before: new Date(noon) })).jobs).toHaveLength(12)
    expect((await mill.dead.list({ name: 'other' })).jobs).toHaveLength(0)
  })

  test('are grouped by cause, whatever numbers the message holds', async () => {
    const { mill, charge } = shop()
    await mill.enqueueMany(charge, orders)
    await mill.drain()
    const groups = await mill.dead.groups()
    expect(groups.map((group) => group.count).sort()).toEqual([5, 7])
    for (const group of groups) {
      const { jobs } = await mill.dead.list({ cause: group.cause })
      expect(jobs).toHaveLength(group.count)
      expect(jobs.map((job) => job.id)).toContain(group.sample)
    }
  })

  test('one is retried with changed input and options', async () => {
    const { mill, charge } = shop()
    const job = await mill.enqueue(charge, { id: 1 })
    await mill.drain()
    await mill.dead.retry(job.id, { input: { id: 1, fixed: true }, priority: 'critical', delay: '1m' })
    expect(await job.get()).toMatchObject({ state: 'scheduled', priority: 'critical', attempt: 0 })
    await mill.drain({ later: true })
    expect(await job.result()).toBe('charged 1')
    expect(await mill.dead.groups()).toEqual([])
  })

  test('all of a cause are retried at a rate that the store keeps', async () => {
    const { mill, charge, heal } = shop()
    await mill.enqueueMany(charge, orders)
    await mill.drain()
    heal()
    const [group] = (await mill.dead.groups()).filter((one) => one.count === 7)
    const report = await mill.dead.retryAll({ cause: group?.cause }, { rate: 2 })
    expect(report).toEqual({ retried: 7, canaries: [], stopped: false })
    const { scheduled, pending, dead } = (await mill.stats()).states
    expect([pending, scheduled, dead]).toEqual([1, 6, 5])
    await mill.advance(1_400)
    expect((await mill.stats()).states.completed).toBe(3)
    await mill.advance('2s')
    expect((await mill.stats()).states).toMatchObject({ completed: 7, dead: 5 })
  })

  test('a canary goes first, and stops the others when it dies again', async () => {
    const { mill, charge, heal } = shop()
    await mill.enqueueMany(charge, orders)
    await mill.drain()
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    const failing = mill.dead.retryAll({}, { canary: 2 })
    await mill.clock.advance(3_000)
    expect(await failing).toMatchObject({ retried: 2, stopped: true })
    expect((await mill.stats()).states.dead).toBe(12)
    heal()
    const progress: number[] = []
    const passing = mill.dead.retryAll({}, { canary: 2, onProgress: (done) => progress.push(done) })
    await mill.clock.advance(3_000)
    expect(await passing).toMatchObject({ retried: 12, stopped: false })
    await mill.clock.advance(3_000)
    expect((await mill.stats()).states).toMatchObject({ completed: 12, dead: 0 })
    expect(progress).toEqual([2, 12])
    await worker.stop()
  })

  test('are purged by filter', async () => {
    const { mill, charge } = shop()
    await mill.enqueueMany(charge, orders)
    await mill.drain()
    const [group] = (await mill.dead.groups()).filter((one) => one.count === 5)
    expect(await mill.dead.purge({ cause: group?.cause })).toBe(5)
    expect((await mill.stats()).states.dead).toBe(7)
    expect(await mill.dead.purge()).toBe(7)
    expect(await mill.dead.groups()).toEqual([])
  })
})

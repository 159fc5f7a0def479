/** Real processes that are killed inside of their transactions, right after them, and anywhere. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Millrace } from 'millrace'
import { afterEach, expect, test } from 'vitest'
import { isRedis } from '../engine/engines.js'
import { freshPlace } from '../engine/fresh-place.js'
import { type Place, storeAt } from '../place.js'
import { entriesOf, makeEntries } from './entries.js'
import { Fleet } from './fleet.js'
import { share } from './scale.js'
import { bookMill, forever } from './transactional-jobs.js'

/** What a handler writes is the engine's own data, or there is no such transaction. */
const testWithTables = test.skipIf(isRedis)

const opened: { close(): unknown }[] = []

afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close()
})

async function open() {
  const place = freshPlace()
  const { book, options } = bookMill(place)
  const mill = new Millrace(options)
  opened.push(mill)
  await mill.open()
  await makeEntries(place)
  return { place, mill, book, entries: entriesOf(place).all }
}

function start(place: Place): ChildProcess {
  const script = fileURLToPath(
    new URL('../../.build/test/processes/transactional-process.js', import.meta.url),
  )
  const config = { place, worker: 'victim', seed: 1, leaseMs: 500 }
  return fork(script, [JSON.stringify(config)])
}

async function until(child: ChildProcess, what: 'inside' | 'completed'): Promise<void> {
  for (;;) {
    const [message] = await once(child, 'message')
    if (what in message) return
  }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

testWithTables(
  'killed inside of its transaction, a job leaves neither its writes nor a settlement',
  async () => {
    const { place, mill, book, entries } = await open()
    const job = await mill.enqueue(book, { order: 'a', ms: forever })
    const child = start(place)
    await until(child, 'inside')
    await kill(child)
    expect([await entries(), await job.state()]).toEqual([[], 'running'])
    await mill.worker({ handleSignals: false, poll: '50ms' }).start()
    expect(await job.result({ timeout: '20s' })).toBe('a')
    const snapshot = await job.get()
    expect([await entries(), snapshot?.attempt, snapshot?.crashes]).toEqual([['a'], 2, 1])
  },
)

testWithTables('killed right after its commit, a job is settled once', async () => {
  const { place, mill, book, entries } = await open()
  const child = start(place)
  const job = await mill.enqueue(book, { order: 'a', ms: 0 })
  await until(child, 'completed')
  await kill(child)
  await mill.worker({ handleSignals: false, poll: '50ms' }).start()
  await sleep(1_000) // the lease of the lost worker is over, and whatever it held would have come back
  const snapshot = await job.get()
  expect([snapshot?.state, snapshot?.attempt, await entries()]).toEqual(['completed', 1, ['a']])
})

testWithTables(
  'killed anywhere, again and again: each order is booked once, however many jobs there are for it',
  async () => {
    const orders = 40 * share
    const { place, mill, book, entries } = await open()
    const store = storeAt(place)
    await store.open()
    opened.push(store)
    const fleet = new Fleet(store, 'transactional-process.js', { place, leaseMs: 500 })
    const { random, seed } = fleet
    try {
      for (let i = 0; i < 3; i++) fleet.hire()
      const inputs = Array.from({ length: orders }, (_, n) => `order-${n}`).flatMap((order) =>
        Array.from({ length: random.integer(1, 3) }, () => ({ order, ms: random.integer(0, 30) })),
      )
      const handles = await mill.enqueueMany(book, inputs)
      for (let i = 0; i < 8 * share; i++) {
        await sleep(random.between(10, 250))
        await fleet.replaceBusy(500)
      }
      await fleet.allDone(inputs.length)
      const told = `seed ${seed}, ${inputs.length} jobs, ${await fleet.lost()} lost attempts`
      expect(new Set(await entries()).size, told).toBe(orders)
      expect((await entries()).length, told).toBe(orders)
      const results = await Promise.all(handles.map((handle) => handle.result({ timeout: '5s' })))
      expect(results, told).toEqual(inputs.map(({ order }) => order))
    } finally {
      fleet.killAll()
    }
  },
  90_000,
)

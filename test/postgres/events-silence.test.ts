/** Connections and processes that fall silent while a projection's batch is on its way to its commit. */
import { defineEvent, defineProjection, EventStore, type Projection, postgresLog } from 'millrace/events'
import { expect, onTestFinished, test } from 'vitest'
import { startProxy } from '../servers/proxy.js'
import { freshSchema, serverUrl } from './postgres.js'

const Happened = defineEvent<'happened', number>({ type: 'happened' })
const quick = {
  poolSize: 4,
  statementTimeout: '1s',
  lockTimeout: '500ms',
  idleInTransactionTimeout: '1s',
} as const

test('a checkpoint that is moved over a dead connection is moved over another one', async () => {
  const schema = freshSchema()
  const network = await startProxy(serverUrl())
  onTestFinished(() => network.close())
  const seen: number[] = []
  const projection = defineProjection({
    name: 'cut',
    events: [Happened],
    on: {
      happened({ data }) {
        seen.push(data)
        if (seen.length > 1) return
        network.blackHole()
        setTimeout(() => network.heal(), 100)
      },
    },
  })
  const log = postgresLog({ url: network.through(serverUrl()), schema, ...quick })
  const store = await opened(log, projection)
  const { position } = await store.append('a', [Happened(1)])
  await working(store)
  await store.reached(projection, position, { timeout: '20s' })
  expect(seen).toEqual([1, 1])
}, 40_000)

test('a process that falls silent before its commit has its part no longer than a transaction may be idle', async () => {
  const schema = freshSchema()
  const [first, second] = [0, 1].map(() => postgresLog({ url: serverUrl(), schema, ...quick }))
  for (const log of [first, second]) {
    onTestFinished(() => log?.close())
    await log?.open()
  }
  await first?.declare({ name: 'p', parts: 1, after: 0 })
  const part = { name: 'p', generation: 1, part: 0 }
  await first?.hold({ ...part, token: 'a', owner: 'a', lease: 500 })
  const batch = await first?.begin()
  await first?.advance({ ...part, token: 'a', position: 7, done: false }, batch?.tx)
  const take = () => second?.hold({ ...part, token: 'b', owner: 'b', lease: 500 })
  expect(await take()).toBeUndefined()
  await expect.poll(take, { timeout: 5_000 }).toEqual({ position: 0 })
  await expect(batch?.commit()).rejects.toThrow()
})

async function opened(log: ReturnType<typeof postgresLog>, projection: Projection) {
  const store = new EventStore({ log, events: [Happened], projections: [projection] })
  onTestFinished(() => store.close({ grace: 0 }))
  store.on('error', () => {})
  await store.open()
  return store
}

async function working(store: EventStore): Promise<void> {
  const worker = store.worker({ poll: '50ms', handleSignals: false })
  await worker.start()
}

/** A process falls silent in the transaction of a handler: neither the others nor itself wait for it long. */
import { postgresStore } from 'millrace/postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { outcomeOf } from '../outcome.js'
import { type FaultyProxy, startProxy } from '../servers/proxy.js'
import { asAdmin, codeOf, freshSchema, serverUrl } from './postgres.js'

let network: FaultyProxy

beforeAll(async () => {
  network = await startProxy(serverUrl())
})

afterAll(() => network.close())

test('at the desk: others go on when its time is over', async () => {
  const schema = freshSchema()
  const silent = await openStore({ schema, url: network.through(serverUrl()), idleInTransactionTimeout: 300 })
  const other = await openStore({ schema, url: serverUrl() })
  const transaction = await silent.begin()
  network.dropReplies()
  const settlement = {
    id: 'nobody',
    token: 'none',
    outcome: outcomeOf({ to: 'completed' }),
    inserts: undefined,
  }
  const settling = codeOf(transaction.settle('worker', settlement))
  await standsAtDesk()
  const start = performance.now()
  await other.extend({ worker: 'another', lease: 1_000, held: [] })
  // A handler has a minute; this is far from it.
  expect(performance.now() - start).toBeLessThan(5_000)
  network.heal()
  await silent.close()
  expect(await settling).not.toBe('ok')
})

test('inside a statement of the handler: its connection is given up, and the next one begins', async () => {
  const silent = await openStore({ schema: freshSchema(), url: network.through(serverUrl()), poolSize: 2 })
  const transaction = await silent.begin()
  network.dropReplies()
  const tx = transaction.tx as { query(text: string): Promise<unknown> }
  const unanswered = tx.query('SELECT 1').catch(() => 'lost')
  const start = performance.now()
  await transaction.rollback()
  network.heal()
  await (await silent.begin()).rollback()
  expect(performance.now() - start).toBeLessThan(10_000)
  expect(await unanswered).toBe('lost')
})

async function openStore(options: Parameters<typeof postgresStore>[0]) {
  const store = postgresStore(options)
  await store.open()
  onTestFinished(() => store.close())
  return store
}

/** Somebody has the lock that the others wait for, and says nothing. */
async function standsAtDesk(): Promise<void> {
  const silent = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND a.state = 'idle in transaction'`
  await asAdmin(async (client) => {
    while ((await client.query(silent)).rowCount === 0);
  })
}

/** A claim is committed, its answer never arrives, and the worker in whose name it was made goes on living. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClaimRequest, defineJob, Millrace } from 'millrace'
import { postgresStore } from 'millrace/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { startProxy } from '../servers/proxy.js'
import { freshSchema, serverUrl } from './postgres.js'

const echo = defineJob({ name: 'echo', run: (n: number) => n })
const url = serverUrl()

test('its job comes back and runs, without an attempt or a crash', async () => {
  const schema = freshSchema()
  const mill = new Millrace({ store: postgresStore({ url, schema }), jobs: [echo] })
  onTestFinished(() => mill.close({ grace: 0 }))
  const options = { handleSignals: false, lease: '600ms', poll: '50ms' } as const
  const claimant = mill.worker({ ...options, queues: ['elsewhere'] })
  await claimant.start()

  const network = await startProxy(url)
  onTestFinished(() => network.close())
  const deaf = postgresStore({ url: network.through(url), schema, statementTimeout: 200 })
  await deaf.open()
  // It learns the queue's number while it can hear.
  await deaf.exchange({ worker: claimant.id, settlements: [], claim: claimOf('nothing') })
  const job = await mill.enqueue(echo, 5)
  network.dropReplies()
  const answer = deaf
    .exchange({ worker: claimant.id, settlements: [], claim: claimOf('lost') })
    .catch(() => 'none')
  while ((await job.state()) !== 'running') await sleep(5)
  await deaf.close()
  expect(await answer).toBe('none')

  await mill.worker(options).start()
  expect(await job.result({ timeout: '10s' })).toBe(5)
  expect(await job.get()).toMatchObject({ state: 'completed', attempt: 1, crashes: 0 })
})

function claimOf(token: string): ClaimRequest {
  return {
    token,
    lease: 600,
    room: { shared: 1, own: [0, 0, 0, 0] },
    picks: [{ queue: 'default', lane: 2, take: 1 }],
    turn: 0,
  }
}

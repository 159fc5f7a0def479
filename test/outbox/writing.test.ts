/** What is written in a transaction leaves if and only if it commits. */
import { defineJob, jsonCodec } from 'millrace'
import type { Relay } from 'millrace/outbox'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { ground, isPostgres, mail, millFor, next, outboxOn, Recorder, relayOf } from './outboxes.js'

test('a job is added to a Millrace after the commit, and runs', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const mill = millFor()
  const relay = await relayOf(outbox, { to: mill })
  const told = next(relay, 'relayed')
  const id = await on.transact(async ({ tx, order }) => {
    await order('o-1')
    return outbox.enqueue(tx, mail, { to: 'ann' })
  })
  await told
  await mill.worker({ handleSignals: false }).start()
  expect(await mill.job(id, mail).result({ timeout: '10s' })).toBe('mailed ann')
  expect(await on.orders()).toEqual(['o-1'])
})

test('what is rolled back leaves nothing', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  await relayOf(outbox, { publisher: recorder })
  const undone = on.transact(async ({ tx, order }) => {
    await order('o-1')
    await outbox.publish(tx, 'orders', { id: 'o-1' })
    throw new Error('no')
  })
  await expect(undone).rejects.toThrow('no')
  await on.transact(({ tx }) => outbox.publish(tx, 'orders', { id: 'o-2' }, { id: 'last' }))
  await recorder.took(1)
  expect(recorder.ids).toEqual(['last'])
  expect(await on.orders()).toEqual([])
})

test('a message has its topic, key, headers, body and time', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  await relayOf(outbox, { publisher: recorder })
  const before = Date.now() - 5_000
  const payload = { text: 'it\'s \u0000 \ud800 \\ "quoted"', n: 1n }
  await on.transact(({ tx }) =>
    outbox.publish(tx, 'orders.placed', payload, { key: 'order 7', headers: { tenant: 'a' } }),
  )
  await recorder.took(1)
  const [message] = recorder.messages
  expect(message).toMatchObject({ topic: 'orders.placed', key: 'order 7', headers: { tenant: 'a' } })
  expect(jsonCodec.decode(message?.body ?? '')).toEqual(payload)
  expect(message?.at).toBeGreaterThan(before)
  expect(message?.at).toBeLessThan(Date.now() + 5_000)
})

test('many jobs at once, with the options of each', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const mill = millFor()
  const relay = await relayOf(outbox, { to: mill })
  const all = next(relay, 'relayed')
  const ids = await on.transact(({ tx }) =>
    outbox.enqueueMany(
      tx,
      mail,
      Array.from({ length: 50 }, (_, i) => ({ to: `${i}` })),
      { priority: 'high', tags: ['bulk'], maxAttempts: 7, order: 'bulk' },
    ),
  )
  expect((await all).count).toBe(50)
  const { jobs } = await mill.jobs({ state: 'pending', tag: 'bulk' })
  expect(jobs.map(({ id }) => id)).toEqual(ids)
  expect(jobs[0]).toMatchObject({ priority: 'high', maxAttempts: 7, queue: 'mail' })
})

test('a delay counts from when it was written', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  await on.transact(({ tx }) => outbox.enqueue(tx, mail, { to: 'now' }, { id: 'now', delay: 10 }))
  await on.transact(({ tx }) => outbox.enqueue(tx, mail, { to: 'later' }, { id: 'later', delay: '1h' }))
  await new Promise((resolve) => setTimeout(resolve, 50)) // time has to pass: the delay of the first
  const mill = millFor()
  await relayed(outbox.relay({ to: mill, handleSignals: false }), 2)
  const now = Date.now()
  expect((await mill.jobs({ state: 'pending' })).jobs.map(({ id }) => id)).toEqual(['now'])
  const [later] = (await mill.jobs({ state: 'scheduled' })).jobs
  expect(later?.id).toBe('later')
  expect(later?.dueAt?.getTime()).toBeLessThan(now + 3600_000 - 40)
})

test('a bad input is refused before anything is written', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const strict = defineJob({ name: 'strict', input: z.object({ to: z.string() }), run: async () => {} })
  await on.transact(({ tx }) => {
    expect(() => outbox.enqueue(tx, strict, { to: 1 } as never)).toThrow(
      /input of job 'strict' is invalid at \$.to/,
    )
    expect(() => outbox.enqueue(tx, mail, { to: 'a' }, { delay: -1 })).toThrow(/delay is -1/)
    expect(() => outbox.enqueue(tx, mail, { to: 'a' }, { prioriti: 'high' } as never)).toThrow(
      /did you mean 'priority'/,
    )
    expect(() => outbox.publish(tx, 'bad\ntopic', {})).toThrow(/topic/)
    expect(() => outbox.publish(tx, 'a', () => {})).toThrow(/payload/)
    expect(() => outbox.publish(tx, 'a', {}, { headers: { a: 1 as never } })).toThrow(
      /headers\.a is 1; expected a text/,
    )
  })
  expect((await outbox.stats()).waiting).toEqual({ job: 0, message: 0 })
})

test('a write outside of a transaction, or to another database, is refused', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const attempt = (tx: unknown) => new Promise((resolve) => resolve(outbox.publish(tx, 'a', {})))
  await expect(attempt(undefined)).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'tx' })
  await expect(attempt({})).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'tx' })
  if (!isPostgres) {
    const other = await ground()
    await other.transact(({ tx }) => expect(attempt(tx)).rejects.toThrow(/the outbox is in/))
  }
})

test('an id that was given twice becomes one job', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const mill = millFor()
  const relay = await relayOf(outbox, { to: mill })
  for (let i = 0; i < 2; i++) {
    const told = next(relay, 'relayed')
    await on.transact(({ tx }) => outbox.enqueue(tx, mail, { to: 'ann' }, { id: 'mail:1' }))
    await told
  }
  expect((await mill.stats()).totals.enqueued).toBe(1)
})

test('its job is remembered for a day at least, whatever its definition says', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const fleeting = defineJob({ name: 'fleeting', retain: { completed: 0 }, run: async () => 'done' })
  const mill = millFor([fleeting])
  const relay = await relayOf(outbox, { to: mill })
  const told = next(relay, 'relayed')
  const id = await on.transact(({ tx }) => outbox.enqueue(tx, fleeting, {}))
  await told
  await mill.worker({ handleSignals: false }).start()
  expect(await mill.job(id, fleeting).result({ timeout: '10s' })).toBe('done')
  const { finishedAt, expiresAt } = (await mill.job(id).get()) ?? {}
  expect((expiresAt?.getTime() ?? 0) - (finishedAt?.getTime() ?? 0)).toBe(86_400_000)
})

/** Starts it, and resolves when it has handed on so many rows. */
async function relayed(relay: Relay, count: number): Promise<void> {
  const all = new Promise<void>((resolve) => {
    let left = count
    relay.on('relayed', (told) => {
      left -= told.count
      if (left === 0) resolve()
    })
  })
  await relay.start()
  await all
}

/** What must not go wrong when something else does. */
import { defineJob } from 'millrace'
import { Outbox, type OutboxOptions, type RelayOptions } from 'millrace/outbox'
import { expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import {
  type Ground,
  ground,
  isPostgres,
  mail,
  millFor,
  next,
  outboxOn,
  Recorder,
  relayOf,
} from './outboxes.js'

test('a target that takes nothing, in whatever way, sets nothing aside', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  let tries = 0
  const triedOften = new Promise<void>((resolve) => {
    recorder.answer = () => {
      if (++tries === 9) resolve()
      return tries % 2 === 0 ? new Error('restarting') : { status: 'failed', error: new Error('no leader') }
    }
  })
  for (const id of ['a', 'b', 'c']) await publish(on, outbox, id)
  await relayOf(outbox, {
    publisher: recorder,
    poll: 5,
    attempts: 2,
    backoff: { initialDelay: 1, maxDelay: 1 },
  })
  await triedOften
  recorder.answer = () => 'published'
  await recorder.took(3)
  expect((await outbox.stats()).aside).toBe(0)
})

test('a row that its target does not take for now makes way for others', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  recorder.answer = ({ id }) =>
    id === 'stuck' ? { status: 'failed', error: new Error('no leader') } : 'published'
  await publish(on, outbox, 'stuck')
  await relayOf(outbox, { publisher: recorder, poll: 10, backoff: { initialDelay: 5, maxDelay: 5 } })
  for (let i = 0; i < 10; i++) await publish(on, outbox, `${i}`)
  await recorder.took(10)
  expect(recorder.ids).not.toContain('stuck')
})

test('relays of several processes leave a row that is held alone until its time', async () => {
  const on = await ground()
  const recorder = new Recorder()
  recorder.answer = () => ({ status: 'refused', error: new Error('no') })
  const stores = [on.store(), on.store()]
  const claims = vi.fn()
  for (const store of stores) {
    const claim = store.claim.bind(store)
    store.claim = (request) => {
      claims()
      return claim(request)
    }
    const outbox = new Outbox({ store })
    await outbox.open()
    onTestFinished(() => outbox.close())
    if (store === stores[0]) await publish(on, outbox, 'held')
    const relay = outbox.relay({
      publisher: recorder,
      poll: '1h',
      backoff: { initialDelay: '1h' },
      handleSignals: false,
    })
    const held = store === stores[0] ? next(relay, 'held') : undefined
    await relay.start()
    await held
  }
  await new Promise((resolve) => setTimeout(resolve, 300)) // what follows from the hold itself is over
  claims.mockClear()
  await new Promise((resolve) => setTimeout(resolve, 500)) // nothing happens: that is the point
  expect(claims.mock.calls.length).toBeLessThan(8)
})

test('a store in trouble is not the fault of its jobs', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const mill = millFor()
  const { MillraceError } = await import('millrace')
  let isAway = true
  const to = {
    insert: (jobs: Parameters<typeof mill.insert>[0]) =>
      isAway ? Promise.reject(new MillraceError('STORE_FAILED', 'disk I/O error')) : mill.insert(jobs),
  }
  await on.transact(({ tx }) => outbox.enqueueMany(tx, mail, [{ to: 'a' }, { to: 'b' }, { to: 'c' }]))
  const relay = await relayOf(outbox, { to, poll: 5, attempts: 2, backoff: { initialDelay: 1, maxDelay: 1 } })
  for (let i = 0; i < 8; i++) await next(relay, 'error')
  isAway = false
  while ((await mill.stats()).totals.enqueued < 3) await next(relay, 'relayed')
  expect((await outbox.stats()).aside).toBe(0)
})

test('a publisher that answers nonsense is told so', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  let answer: unknown
  const publisher = { name: 'mine', publish: async () => answer as never }
  await publish(on, outbox, 'a')
  const relay = await relayOf(outbox, { publisher, poll: 5 })
  for (const nonsense of [undefined, ['ok'], [{ status: 'lost' }]]) {
    answer = nonsense
    const told = await next(relay, 'error')
    expect(told.error).toMatchObject({ message: expect.stringContaining("publisher 'mine' answered") })
  }
})

test('a relay starts once, stops at once, and not again', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  const relay = outbox.relay({ publisher: recorder, concurrency: 16, handleSignals: false })
  await Promise.all([relay.start(), relay.start()])
  await publish(on, outbox, 'a')
  await recorder.took(1)
  await relay.stop({ grace: 0 })
  await relay.stopped
  await expect(relay.start()).rejects.toMatchObject({ code: 'CLOSED' })
  expect(recorder.ids).toEqual(['a'])
})

test('an outbox that is closed while it opens is closed', async () => {
  const on = await ground()
  const outbox = new Outbox({ store: on.store() })
  const opening = outbox.open()
  await outbox.close()
  await opening
  await on.transact(({ tx }) => expect(() => outbox.publish(tx, 'a', 1)).toThrow(/not open/))
})

test('what is wrong is refused where it is given, and no password shows', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const secret = 'redis://user:hunter2@host'
  const relay = (options: object) => () =>
    outbox.relay({ publisher: new Recorder(), ...options } as RelayOptions)
  const made = (options: object) => () => new Outbox(options as OutboxOptions)
  const refusals: [() => unknown, RegExp][] = [
    [relay({ to: secret }), /to is not right/],
    [relay({ publisher: secret }), /publisher is not right/],
    [relay({ source: 'wal' }), /source is "wal"; expected one of poll, replication/],
    [relay({ handleSignals: 'no' }), /handleSignals is "no"/],
    [relay({ maxLag: 5 }), /maxLag is 5/],
    [made({ store: { url: secret } }), /store is not right/],
    [made({ store: 'sqlite::memory:' }), /caller's own database/],
    [made({ store: on.store(), codec: {} }), /codec/],
    [made({ store: on.store(), keep: null }), /keep/],
  ]
  for (const [give, message] of refusals) {
    let error: unknown
    try {
      give()
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ message: expect.stringMatching(message) })
    expect(`${(error as Error).stack}${JSON.stringify(error)}`).not.toContain('hunter2')
  }
  if (!isPostgres) expect(relay({ source: 'replication' })).toThrow(/source is "replication"/)
  await on.transact(({ tx }) => {
    expect(() => outbox.publish(tx, 'a', 1, { headers: 'x' as never })).toThrow(
      /headers is "x"; expected an object/,
    )
    expect(() => outbox.publish(tx, 'a', 1, { headers: { a: 'x'.repeat(20_000) } })).toThrow(
      /no more than 16384/,
    )
    expect(() => outbox.enqueue(tx, mail, { to: 'a' }, { signal: 1 } as never)).toThrow(/no option 'signal'/)
    expect(() => outbox.enqueue(tx, mail, { to: 'a' }, null as never)).toThrow(/enqueue is null/)
  })
})

test.skipIf(isPostgres)(
  'an asynchronous schema is refused on SQLite, and nothing is left to reject',
  async () => {
    const on = await ground()
    const outbox = await outboxOn(on)
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const slow = defineJob({ name: 'slow', input: z.string().refine(async () => false), run: async () => {} })
    await on.transact(({ tx }) => expect(() => outbox.enqueue(tx, slow, 'a')).toThrow(/asynchronous schema/))
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  },
)

test('large rows come few at a time', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  const text = Array.from({ length: 90_000 }, () => Math.random().toString(36).slice(2))
    .join('')
    .slice(0, 900_000)
  for (let i = 0; i < 6; i++)
    await on.transact(({ tx }) => outbox.publish(tx, 'large', text, { id: `${i}`, key: 'one' }))
  await relayOf(outbox, { publisher: recorder })
  await recorder.took(6)
  expect(Math.max(...recorder.batches.map((batch) => batch.length))).toBeLessThanOrEqual(2)
  expect(recorder.ids).toEqual(['0', '1', '2', '3', '4', '5'])
})

function publish(on: Ground, outbox: Outbox, id: string) {
  return on.transact(({ tx }) => outbox.publish(tx, 'steps', id, { id }))
}

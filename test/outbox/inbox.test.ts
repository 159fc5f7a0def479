/** What is done for a message is done once, however often it comes. */
import { Inbox } from 'millrace/outbox'
import { expect, onTestFinished, test } from 'vitest'
import { type Ground, ground, isPostgres, outboxOn } from './outboxes.js'

test('the first time does the work, the second does not', async () => {
  const on = await ground()
  const inbox = await inboxOn(on, 'mailer')
  const once = () => on.transact(({ tx, order }) => inbox.once(tx, 'm-1', () => order('o-1')))
  expect((await once()).first).toBe(true)
  expect(await once()).toEqual({ first: false })
  expect(await on.orders()).toEqual(['o-1'])
})

test('each consumer has its own', async () => {
  const on = await ground()
  const [mailer, auditor] = [await inboxOn(on, 'mailer'), await inboxOn(on, 'auditor')]
  const results = await on.transact(async ({ tx, order }) => [
    await mailer.once(tx, 'm-1', () => order('by-mailer')),
    await auditor.once(tx, 'm-1', () => order('by-auditor')),
  ])
  expect(results.map(({ first }) => first)).toEqual([true, true])
})

test('work that fails is not noted: the message may come again', async () => {
  const on = await ground()
  const inbox = await inboxOn(on, 'mailer')
  const fails = on.transact(({ tx }) =>
    inbox.once(tx, 'm-1', () => {
      throw new Error('no')
    }),
  )
  await expect(fails).rejects.toThrow('no')
  const again = await on.transact(({ tx }) => inbox.once(tx, 'm-1', async () => 'done'))
  expect(again).toEqual({ first: true, result: 'done' })
})

test.runIf(isPostgres)('of two transactions at the same time one does the work', async () => {
  const on = await ground()
  const inbox = await inboxOn(on, 'mailer')
  const both = await Promise.all(
    ['a', 'b', 'c'].map((id) => on.transact(({ tx, order }) => inbox.once(tx, 'm-1', () => order(id)))),
  )
  expect(both.filter(({ first }) => first)).toHaveLength(1)
  expect(await on.orders()).toHaveLength(1)
})

test.runIf(isPostgres)('one that waits for another does the work when that one rolls back', async () => {
  const on = await ground()
  const inbox = await inboxOn(on, 'mailer')
  let second: ReturnType<typeof inbox.once> | undefined
  const first = on.transact(({ tx }) =>
    inbox.once(tx, 'm-1', async () => {
      second = on.transact((other) => inbox.once(other.tx, 'm-1', () => other.order('second')))
      throw new Error('rolled back')
    }),
  )
  await expect(first).rejects.toThrow('rolled back')
  expect((await second)?.first).toBe(true)
  expect(await on.orders()).toEqual(['second'])
})

test.skipIf(isPostgres)(
  'in a synchronous transaction the work has been done when the call returns',
  async () => {
    const on = await ground()
    const inbox = await inboxOn(on, 'mailer')
    await on.transact(({ tx }) => {
      let done = false
      void inbox.once(tx, 'm-1', () => {
        done = true
      })
      expect(done).toBe(true)
      const fails = () =>
        inbox.once(tx, 'm-2', () => {
          throw new Error('at once')
        })
      expect(fails).toThrow('at once')
    })
  },
)

test('what is older than it is remembered is forgotten', async () => {
  const on = await ground()
  const store = on.store()
  await store.open()
  onTestFinished(() => store.close())
  const receive = (consumer: string, id: string) =>
    on.transact(async ({ tx }) => store.receive(consumer, id, tx))
  for (let i = 0; i < 5; i++) await receive('mailer', `m-${i}`)
  await receive('auditor', 'm-0')
  const forget = (keep: number) =>
    store.prune({ history: undefined, aside: undefined, received: { consumer: 'mailer', keep }, limit: 3 })
  expect(await forget(60_000)).toBe(false)
  expect(await receive('mailer', 'm-0')).toBe(false)
  await new Promise((resolve) => setTimeout(resolve, 5)) // time has to pass: they must be older than nothing
  expect(await forget(0)).toBe(true)
  expect(await forget(0)).toBe(false)
  expect(await receive('mailer', 'm-0')).toBe(true)
  expect(await receive('auditor', 'm-0')).toBe(false)
})

test('before it is open, and without a good name, it says what to do', async () => {
  const on = await ground()
  const inbox = new Inbox({ store: on.store(), consumer: 'mailer' })
  await on.transact(({ tx }) => expect(() => inbox.once(tx, 'm', () => {})).toThrow(/await inbox.open\(\)/))
  expect(() => new Inbox({ store: on.store(), consumer: 'a b' })).toThrow(/consumer is "a b"/)
  expect(() => new Inbox({ store: 'redis://x', consumer: 'a' })).toThrow(/caller's own database/)
})

test('rows that were handed on are kept for those who want to look back, and pruned', async () => {
  const on = await ground()
  const outbox = await outboxOn(on, { keep: { sent: '1h' } })
  const store = on.store()
  await store.open()
  onTestFinished(() => store.close())
  await on.transact(({ tx }) => outbox.publish(tx, 'a', 1, { id: 'kept' }))
  const claim = await store.claim({ kind: 'message', limit: 10, from: 0, within: 5_000, history: true })
  expect(await claim.settle([{ do: 'done' }])).toBe('settled')
  await new Promise((resolve) => setTimeout(resolve, 5))
  const prune = (history: number) => store.prune({ history, aside: undefined, received: undefined, limit: 1 })
  expect(await prune(60_000)).toBe(false)
  expect(await prune(0)).toBe(true)
  expect(await prune(0)).toBe(false)
})

async function inboxOn(on: Ground, consumer: string): Promise<Inbox> {
  const inbox = new Inbox({ store: on.store(), consumer })
  await inbox.open()
  onTestFinished(() => inbox.close())
  return inbox
}

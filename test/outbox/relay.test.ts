/** How rows are handed on: in order, once, and past whatever goes wrong. */

import { expect, test } from 'vitest'
import { type Answer, type Ground, ground, next, outboxOn, Recorder, relayOf } from './outboxes.js'

test('messages of one key leave in their order, whatever number of relays is at work', async () => {
  const on = await ground()
  const recorder = new Recorder()
  const outboxes = await Promise.all(Array.from({ length: 3 }, () => outboxOn(on)))
  const [writer] = outboxes
  if (writer === undefined) throw new Error('no outbox')
  const keys = Array.from({ length: 40 }, (_, i) => `key-${i}`)
  const write = (round: number) =>
    on.transact(async ({ tx }) => {
      for (const key of keys) await writer.publish(tx, 'steps', round, { key, id: `${key}:${round}` })
    })
  for (let round = 0; round < 3; round++) await write(round)
  for (const outbox of outboxes) await relayOf(outbox, { publisher: recorder, batch: 17, concurrency: 3 })
  for (let round = 3; round < 10; round++) await write(round)
  await recorder.took(400)
  expect(new Set(recorder.ids).size).toBe(400)
  for (const key of keys) {
    const own = recorder.messages.filter((message) => message.key === key).map(({ body }) => body)
    expect(own).toEqual(Array.from({ length: 10 }, (_, round) => `${round}`))
  }
})

test('relays take rows at the same time', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  for (const key of ['a', 'b', 'c', 'd']) await publish(on, outbox, key, `${key}:0`)
  const recorder = new Recorder()
  let underWay = 0
  const both = new Promise<void>((resolve) => {
    recorder.answer = async (): Promise<Answer> => {
      if (++underWay === 2) resolve()
      await both
      return 'published'
    }
  })
  const options = { publisher: recorder, batch: 1, concurrency: 1 }
  await relayOf(outbox, options)
  await relayOf(await outboxOn(on), options)
  await recorder.took(4)
})

test('a row that is refused waits, and with it those of its key; others go on', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  let refusals = 0
  recorder.answer = ({ id }) =>
    id === 'bad:1' && refusals++ < 3 ? { status: 'refused', error: new Error('not yet') } : 'published'
  await publish(on, outbox, 'bad', 'bad:1')
  await publish(on, outbox, 'bad', 'bad:2')
  for (let i = 0; i < 20; i++) await publish(on, outbox, `good-${i}`, `good-${i}:1`)
  const relay = await relayOf(outbox, {
    publisher: recorder,
    poll: 20,
    backoff: { initialDelay: 5, maxDelay: 20 },
  })
  await recorder.took(22)
  expect(refusals).toBe(4)
  expect(recorder.ids.slice(0, 20)).not.toContain('bad:2')
  expect(recorder.ids.filter((id) => id.startsWith('bad'))).toEqual(['bad:1', 'bad:2'])
  await relay.stop()
  expect(await outbox.stats()).toMatchObject({ waiting: { message: 0 }, held: { message: 0 }, aside: 0 })
})

test('one that is refused too often is set aside and shown, and those behind it go on', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  recorder.answer = ({ id }) =>
    id === 'bad:1' ? { status: 'refused', error: new Error('leads nowhere') } : 'published'
  await publish(on, outbox, 'bad', 'bad:1')
  await publish(on, outbox, 'bad', 'bad:2')
  const relay = outbox.relay({
    publisher: recorder,
    poll: 20,
    attempts: 3,
    backoff: { initialDelay: 5 },
    handleSignals: false,
  })
  const aside = next(relay, 'aside')
  const held: number[] = []
  relay.on('held', ({ delay }) => held.push(delay))
  await relay.start()
  expect(await aside).toMatchObject({ id: 'bad:1', attempts: 3, failure: 'Error: leads nowhere' })
  await recorder.took(1)
  expect(recorder.ids).toEqual(['bad:2'])
  expect(held).toHaveLength(2)
  await relay.stop()

  const { rows, cursor } = await outbox.aside.list()
  expect(rows).toMatchObject([
    { id: 'bad:1', key: 'bad', topic: 'steps', attempts: 3, failure: 'Error: leads nowhere' },
  ])
  expect(cursor).toBeUndefined()
  recorder.answer = () => 'published'
  expect(await outbox.aside.retry('bad:1', 'unknown')).toEqual(['bad:1'])
  await relayOf(outbox, { publisher: recorder })
  await recorder.took(2)
  expect(recorder.ids).toEqual(['bad:2', 'bad:1'])
  expect((await outbox.aside.list()).rows).toEqual([])
})

test('what was set aside can be discarded', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  recorder.answer = () => ({ status: 'refused', error: 'no' })
  await publish(on, outbox, undefined, 'bad')
  const relay = outbox.relay({ publisher: recorder, attempts: 1, handleSignals: false })
  const aside = next(relay, 'aside')
  await relay.start()
  await aside
  await relay.stop()
  expect(await outbox.aside.discard('bad')).toEqual(['bad'])
  expect(await outbox.stats()).toMatchObject({ waiting: { message: 0 }, aside: 0 })
})

test('a message that spoils each batch that it is in is found, and the others leave', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  recorder.answer = (_, batch) =>
    batch.some(({ id }) => id === 'poison') ? new Error('the batch is spoilt') : 'published'
  for (let i = 0; i < 30; i++) await publish(on, outbox, undefined, i === 10 ? 'poison' : `${i}`)
  const relay = outbox.relay({
    publisher: recorder,
    poll: 10,
    attempts: 2,
    backoff: { initialDelay: 1, maxDelay: 1 },
    handleSignals: false,
  })
  relay.on('error', () => {})
  const aside = next(relay, 'aside')
  await relay.start()
  // What comes later shows that the broker is well, so the row must be to blame.
  let more = 0
  const timer = setInterval(() => void publish(on, outbox, undefined, `more-${more++}`), 20)
  expect((await aside).id).toBe('poison')
  clearInterval(timer)
  await recorder.took(29 + more)
  await relay.stop()
  for (let i = 0; i < 30; i++) if (i !== 10) expect(recorder.ids).toContain(`${i}`)
})

test('while the target is away nothing is set aside; then all of it leaves', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  let isAway = true
  let tries = 0
  const triedOften = new Promise<void>((resolve) => {
    recorder.answer = () => {
      if (++tries === 8) resolve()
      return isAway ? new Error('connection refused') : 'published'
    }
  })
  for (let i = 0; i < 20; i++) await publish(on, outbox, undefined, `${i}`)
  await relayOf(outbox, {
    publisher: recorder,
    poll: 10,
    attempts: 1,
    backoff: { initialDelay: 1, maxDelay: 1 },
  })
  await triedOften
  isAway = false
  await recorder.took(20)
  expect(await outbox.stats()).toMatchObject({ aside: 0 })
})

test('a target that does not answer in time is given up, and asked again', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  let calls = 0
  recorder.answer = () => (++calls === 1 ? new Promise(() => {}) : 'published')
  await publish(on, outbox, 'a', 'a:1')
  const relay = await relayOf(outbox, {
    publisher: recorder,
    timeout: 50,
    poll: 10,
    backoff: { initialDelay: 1, maxDelay: 1 },
  })
  expect((await next(relay, 'error')).error).toMatchObject({
    message: expect.stringContaining('within 50 ms'),
  })
  await recorder.took(1)
})

test('what a relay was at when it ended goes to another, and comes again with the same id', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const stuck = new Recorder()
  const begun = new Promise<void>((resolve) => {
    stuck.answer = ({ id }) => {
      if (id !== 'a:3') return 'published'
      resolve()
      return new Promise(() => {})
    }
  })
  for (let i = 1; i <= 4; i++) await publish(on, outbox, 'a', `a:${i}`)
  const first = await relayOf(outbox, { publisher: stuck })
  await begun
  await first.stop({ grace: 0 })
  const second = new Recorder()
  await relayOf(await outboxOn(on), { publisher: second })
  await second.took(4)
  expect(stuck.ids).toEqual(['a:1', 'a:2'])
  expect(second.ids).toEqual(['a:1', 'a:2', 'a:3', 'a:4'])
})

test('a relay that stops waits for what is under way', async () => {
  const on = await ground()
  const outbox = await outboxOn(on)
  const recorder = new Recorder()
  let finish = () => {}
  const begun = new Promise<void>((resolve) => {
    recorder.answer = () =>
      new Promise((answer) => {
        finish = () => answer('published')
        resolve()
      })
  })
  await publish(on, outbox, 'a', 'a:1')
  const relay = await relayOf(outbox, { publisher: recorder })
  await begun
  const stopped = relay.stop()
  finish()
  await stopped
  expect(await outbox.stats()).toMatchObject({ waiting: { message: 0 } })
})

function publish(
  on: Ground,
  outbox: Awaited<ReturnType<typeof outboxOn>>,
  key: string | undefined,
  id: string,
) {
  return on.transact(({ tx }) => outbox.publish(tx, 'steps', id, { id, ...(key !== undefined && { key }) }))
}

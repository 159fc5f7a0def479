import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Message } from '../../src/outbox/message.js'
import type { PublishResult } from '../../src/outbox/publisher.js'
import { inKeyOrder } from '../../src/outbox/publishers/in-key-order.js'
import { errorOf, message } from './messages.js'

test('one of each key at a time, and no more in all than are allowed', async () => {
  const keys = ['a', 'a', 'b', undefined, 'a', undefined, 'b', 'c', undefined]
  const batch = keys.map((key) => message('t', { key }))
  const open: Message[] = []
  const seen: Message[] = []
  let most = 0
  const results = await inKeyOrder(batch, 3, async (one) => {
    expect(open.filter(({ key }) => key !== undefined && key === one.key)).toEqual([])
    open.push(one)
    seen.push(one)
    most = Math.max(most, open.length)
    await turn()
    open.splice(open.indexOf(one), 1)
    return 'published'
  })
  expect(results).toEqual(batch.map(() => 'published'))
  expect(most).toBe(3)
  for (const key of ['a', 'b', 'c'])
    expect(seen.filter((one) => one.key === key)).toEqual(batch.filter((one) => one.key === key))
})

test('none is sent after one of its key that was not taken; it failed for the same reason', async () => {
  const refused: PublishResult = { status: 'refused', error: new Error('no') }
  const batch = ['a', 'b', 'a', undefined, 'a'].map((key) => message('t', { key }))
  const sent: Message[] = []
  const results = await inKeyOrder(batch, 10, async (one) => {
    sent.push(one)
    return one === batch[0] || one === batch[3] ? refused : 'published'
  })
  const held = { status: 'failed', error: refused.error }
  expect(results).toEqual([refused, 'published', held, refused, held])
  expect(sent).toEqual([batch[0], batch[1], batch[3]])
})

test('nothing is begun after the connection was lost, and what had been taken is known', async () => {
  const batch = Array.from({ length: 6 }, () => message('t'))
  const sent: Message[] = []
  const lost = new Error('lost')
  const results = await inKeyOrder(batch, 2, async (one) => {
    sent.push(one)
    await turn()
    if (one === batch[2]) throw lost
    return 'published'
  })
  const failed = { status: 'failed', error: lost }
  expect(sent).toEqual(batch.slice(0, 4))
  expect(results).toEqual(['published', 'published', failed, 'published', failed, failed])
})

test('it rejects when nothing is known of any', async () => {
  const batch = Array.from({ length: 6 }, () => message('t'))
  const lost = new Error('lost')
  expect(await errorOf(inKeyOrder(batch, 4, () => Promise.reject(lost)))).toBe(lost)
  expect(await inKeyOrder([], 4, () => Promise.reject(lost))).toEqual([])
})

import { expect, test } from 'vitest'
import { Opening } from '../../src/system/opening.js'

test('one attempt for all who ask', async () => {
  let attempts = 0
  const opening = new Opening(async () => void attempts++)
  await Promise.all([opening.done(), opening.done()])
  await opening.done()
  expect(attempts).toBe(1)
})

test('one that failed is made again, and fails for all who had asked', async () => {
  let attempts = 0
  const opening = new Opening(async () => {
    if (++attempts === 1) throw new Error('nobody is there')
  })
  const both = await Promise.allSettled([opening.done(), opening.done()])
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await opening.done()
  expect(attempts).toBe(2)
})

test('it is over when the attempt has ended, also when it failed, and when there was none', async () => {
  let fail = (_: Error) => {}
  const opening = new Opening(() => new Promise((_, reject) => (fail = reject)))
  await opening.over()
  const done = opening.done().catch(() => 'failed')
  const over = opening.over().then(() => 'over')
  fail(new Error('nobody is there'))
  expect(await Promise.all([done, over])).toEqual(['failed', 'over'])
})

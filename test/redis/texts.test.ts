/** Tickets and bodies of many jobs come and go as one text, whatever is in them. */
import { expect, test } from 'vitest'
import type { Settlement } from '../../src/core/store.js'
import { claim, complete, idsOf, newJob, newJobs, statesOf } from '../../src/testing/conformance/helpers.js'
import { watchScripts } from './intercept.js'
import { openStore } from './redis.js'

test.each<[string, string[]]>([
  ['what separates them', ['a\x1eb', '\x1e', '\x1e\x1e', 'c']],
  ['lines, and nothing', ['\n', '', 'a\nb', ';', '[', '"\\"']],
  ['other letters', ['ü', '日本', '😀\x1e😀', 'x'.repeat(100)]],
  ['more than one text holds', Array.from({ length: 10 }, (_, n) => String(n).repeat(40_000))],
])('inputs with %s come as they are', async (_, inputs) => {
  const store = await openStore()
  await store.insert(inputs.map((input) => newJob({ input, metadata: '{"m":1}' })))
  await store.insert(inputs.map((input) => newJob({ input })))
  const jobs = await claim(store, 100)
  expect(jobs.map(({ input }) => input)).toEqual([...inputs, ...inputs])
  expect(jobs.map(({ metadata }) => metadata).slice(inputs.length - 1, inputs.length + 1)).toEqual([
    '{"m":1}',
    undefined,
  ])
})

test('jobs whose ids are of all lengths end together', async () => {
  const store = await openStore()
  const own = ['a', 'order-1', 'x'.repeat(128), '01890000-0000-7000-8000-00000000000']
  const ids = [...own.map((id) => newJob({ id })), ...newJobs(3)]
  await store.insert(ids)
  const jobs = await claim(store, 10)
  expect(idsOf(jobs)).toEqual(idsOf(ids))
  const settlements = jobs.map(({ id, token }): Settlement => ended(id, token))
  const names = watchScripts()
  expect((await store.exchange({ worker: 'worker', settlements, claim: undefined })).settled).toEqual(
    jobs.map(() => 'applied'),
  )
  expect(names).toEqual(['exchange'])
  expect(await statesOf(store)).toMatchObject({ running: 0, completed: jobs.length })
})

test('tokens of other jobs, and what are none, end nothing', async () => {
  const store = await openStore()
  await store.insert(newJobs(3))
  const [a, b, c] = await claim(store, 3)
  if (a === undefined || b === undefined || c === undefined) throw new Error('three jobs were claimed')
  const tokens = [b.token, '', 'x', `${a.token}x`, a.token.slice(1), a.token.toUpperCase(), `${a.token}\n`]
  const wrong = tokens.map((token) => ended(a.id, token))
  const odd = [ended('日本', c.token), ended(`${c.id}\n`, c.token), ended('', c.token)]
  const settlements = [...wrong, ...odd, ended(b.id, b.token)]
  const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
  expect(settled).toEqual([...wrong, ...odd].map(() => 'lost').concat('applied'))
  expect(await statesOf(store)).toMatchObject({ running: 2, completed: 1 })
  for (const job of [a, c]) {
    const { settled } = await store.exchange({
      worker: 'worker',
      settlements: [ended(job.id, job.token)],
      claim: undefined,
    })
    expect(settled).toEqual(['applied'])
  }
})

function ended(id: string, token: string): Settlement {
  return { id, token, outcome: complete('"r"'), inserts: undefined }
}

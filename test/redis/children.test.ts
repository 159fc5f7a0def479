/** Children that are otherwise plain are claimed and ended without the desk, and their parents are told. */
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import { childOf, linksOf, parent } from '../../src/testing/conformance/family-jobs.js'
import {
  claim,
  complete,
  die,
  read,
  retention,
  retryIn,
  settle,
} from '../../src/testing/conformance/helpers.js'
import { before, watchScripts } from './intercept.js'
import { freshPrefix, serverUrl } from './redis.js'

test('all but the last one need no desk, and their results are kept with the parent', async () => {
  const { store, top } = await openFamily(3)
  const names = watchScripts()
  const jobs = await claim(store, 3)
  expect(jobs.map(({ family }) => family)).toEqual([undefined, undefined, undefined])
  await settle(store, jobs[0] as ClaimedJob, complete('"\\" ü"', keepNothing))
  await settle(store, jobs[1] as ClaimedJob, complete(undefined))
  expect(names).toEqual(['exchange', 'exchange', 'exchange'])
  await settle(store, jobs[2] as ClaimedJob, complete('3'))
  expect(names).toContain('write')
  const links = await linksOf(store, { parents: [top.id] })
  expect(links.map(({ end, result }) => [end, result])).toEqual([
    ['completed', '"\\" ü"'],
    ['completed', undefined],
    ['completed', '3'],
  ])
  expect((await claim(store, 1)).map(({ id }) => id)).toEqual([top.id])
})

test('a child that ends while the desk counts another one is counted too', async () => {
  const { store, top, prefix } = await openFamily(4)
  const other = await openStore(prefix)
  const jobs = await claim(store, 4)
  before(scripts.write, async () => {
    expect(await settle(other, jobs[1] as ClaimedJob, complete())).toBe('applied')
  })
  expect(await settle(store, jobs[0] as ClaimedJob, die())).toBe('applied')
  expect(await read(store, top.id)).toMatchObject({ state: 'blocked' })
  for (const job of jobs.slice(2)) await settle(store, job, complete())
  const ends = (await linksOf(store, { parents: [top.id] })).map(({ end }) => end)
  expect(ends).toEqual(['dead', 'completed', 'completed', 'completed'])
  expect((await claim(store, 1)).map(({ id }) => id)).toEqual([top.id])
})

test('one that comes back is told of its earlier run, and its end of its parent', async () => {
  const { store, top } = await openFamily(2)
  const [first, second] = await claim(store, 2)
  await settle(store, first as ClaimedJob, retryIn(1))
  await new Promise((resolve) => setTimeout(resolve, 5))
  await store.sweep({ limit: 100, keep: retention })
  const [again] = await claim(store, 1)
  expect(again).toMatchObject({ id: first?.id, attempt: 2, retryDelay: 1, family: undefined })
  await settle(store, again as ClaimedJob, complete('1'))
  await settle(store, second as ClaimedJob, complete('2'))
  const results = (await linksOf(store, { parents: [top.id] })).map(({ result }) => result)
  expect(results).toEqual(['1', '2'])
  expect((await claim(store, 1)).map(({ id }) => id)).toEqual([top.id])
})

const keepNothing = { completed: 0, dead: 0 }

async function openFamily(size: number) {
  const prefix = freshPrefix()
  const store = await openStore(prefix)
  const top: NewJob = parent()
  const children = Array.from({ length: size }, () => childOf([top]))
  await store.insert([top, ...children])
  return { store, top, prefix }
}

async function openStore(prefix: string): Promise<Store> {
  const store = new RedisStore({ url: serverUrl(), prefix, warn: false })
  onTestFinished(() => store.close())
  await store.open()
  return store
}

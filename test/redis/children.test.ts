/** Children that are otherwise plain are claimed and ended without the desk, and their parents are told. */
import { describe, expect, test } from 'vitest'
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
import { VirtualClock } from '../../src/testing/virtual-clock.js'
import { before, twice, watchScripts } from './intercept.js'
import { freshPrefix, openStore } from './redis.js'

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
  const other = await openStore({ prefix })
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
  const clock = new VirtualClock()
  const { store, top } = await openFamily(2, { clock })
  const [first, second] = await claim(store, 2)
  await settle(store, first as ClaimedJob, retryIn(1))
  clock.jump(2)
  await store.sweep({ limit: 100, keep: retention })
  const [again] = await claim(store, 1)
  expect(again).toMatchObject({ id: first?.id, attempt: 2, retryDelay: 1, family: undefined })
  await settle(store, again as ClaimedJob, complete('1'))
  await settle(store, second as ClaimedJob, complete('2'))
  const results = (await linksOf(store, { parents: [top.id] })).map(({ result }) => result)
  expect(results).toEqual(['1', '2'])
  expect((await claim(store, 1)).map(({ id }) => id)).toEqual([top.id])
})

describe('children that come later', () => {
  test('need no desk, stand in line and are waited for', async () => {
    const { store, top } = await openFamily(1)
    const names = watchScripts()
    const family = familyOf(top)
    const jobs = Array.from({ length: 3 }, () => ({ ...childOf([top]), family }))
    expect(await store.insert(jobs)).toEqual(jobs.map(() => ({ status: 'inserted', state: 'pending' })))
    expect(names).toEqual(['insert'])
    const [, ...claimed] = await claim(store, 9)
    expect(claimed.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    for (const [i, job] of claimed.entries()) await settle(store, job, complete(`${i}`))
    expect(names).toEqual(['insert', 'exchange', 'exchange', 'exchange', 'exchange'])
    expect(await read(store, top.id)).toMatchObject({ state: 'blocked', family: { children: 4, waiting: 1 } })
    const links = await linksOf(store, { parents: [top.id] })
    expect(links.map(({ end, result }) => `${end} ${result}`).sort()).toEqual([
      'completed 0',
      'completed 1',
      'completed 2',
      'undefined undefined',
    ])
  })

  test('come once, though the answer got lost', async () => {
    const { store, top } = await openFamily(1)
    twice(scripts.insert)
    await addLater(store, top, 2)
    expect(await read(store, top.id)).toMatchObject({ family: { children: 3, waiting: 3 } })
    expect((await claim(store, 9)).length).toBe(3)
  })

  test('are known after they have ended and are forgotten', async () => {
    const { store, top } = await openFamily(1)
    const later = await addLater(store, top, 2)
    const [, ...claimed] = await claim(store, 9)
    for (const job of claimed) await settle(store, job, complete('1', keepNothing))
    for (let time = 0; time < 2; time++) {
      const again = await store.insert(later)
      expect(again.map(({ status }) => status)).toEqual(['duplicate', 'duplicate'])
    }
    expect(await read(store, top.id)).toMatchObject({ family: { children: 3, waiting: 1 } })
  })

  test('do not come to a parent that has ended, or waits for nobody', async () => {
    const { store, top } = await openFamily(1)
    await store.operate({ ids: [top.id] }, { do: 'cancel', reason: 'because', retain: 1_000 })
    const family = familyOf(top)
    const results = await store.insert([{ ...childOf([top]), family }])
    expect(results).toMatchObject([{ status: 'orphaned' }])
    expect(await read(store, top.id)).toMatchObject({ state: 'cancelled' })
  })

  test('that come while the desk looks at their parent are cancelled with it', async () => {
    const { store, top, prefix } = await openFamily(1)
    const other = await openStore({ prefix })
    let later: NewJob[] = []
    before(scripts.write, async () => {
      later = await addLater(other, top, 2)
    })
    await store.operate({ ids: [top.id] }, { do: 'cancel', reason: 'because', retain: 1_000 })
    for (let i = 0; i < 3; i++) await store.sweep({ limit: 100, keep: retention })
    const records = await store.get(later.map(({ id }) => id))
    expect(records.map((job) => job?.state)).toEqual(['cancelled', 'cancelled'])
  })

  test('are retried under their parent', async () => {
    const { store, top } = await openFamily(1)
    const [late] = await addLater(store, top, 1)
    const [first, again] = await claim(store, 9)
    await settle(store, first as ClaimedJob, complete())
    await settle(store, again as ClaimedJob, die())
    expect(await read(store, (late as NewJob).id)).toMatchObject({ state: 'dead', family: { flow: top.id } })
    await store.operate({ ids: [(late as NewJob).id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    expect((await claim(store, 9)).length).toBeGreaterThan(0)
  })

  async function addLater(store: Store, top: NewJob, size: number): Promise<NewJob[]> {
    const family = familyOf(top)
    const jobs = Array.from({ length: size }, () => ({ ...childOf([top]), family }))
    await store.insert(jobs)
    return jobs
  }

  /** Those of a flow have one between them. */
  function familyOf(top: NewJob) {
    return childOf([top]).family
  }
})

const keepNothing = { completed: 0, dead: 0 }

async function openFamily(size: number, options: Parameters<typeof openStore>[0] = {}) {
  const prefix = freshPrefix()
  const store = await openStore({ prefix, ...options })
  const top: NewJob = parent()
  const children = Array.from({ length: size }, () => childOf([top]))
  await store.insert([top, ...children])
  return { store, top, prefix }
}

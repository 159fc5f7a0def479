/** Schedules as a store keeps them. It knows no cron: rules and specs are any texts here, and slots any numbers. */
import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import {
  farBackMs,
  type ScheduleChange,
  type ScheduleRecord,
  type ScheduleResult,
} from '../../core/schedule.js'
import type { Store } from '../../core/store.js'
import { limit as limitDepth } from './depth.js'
import {
  claim,
  exists,
  fresh,
  idsOf,
  insertMany,
  newJob,
  nextSignal,
  statesOf,
  succeeds,
  sweep,
  type Test,
  timeOf,
  unreadable,
} from './helpers.js'

const hour = 3_600_000

export function schedulePuts(test: Test): void {
  test('a new one is fresh and shows all that was given', async ({ store }) => {
    const now = await timeOf(store)
    const { status, record } = await put(store, { rule: 'hourly', spec: 'mail', revision: 'r1' })
    assert.equal(status, 'applied')
    assert.deepEqual(record, {
      name: 'nightly',
      rule: 'hourly',
      spec: 'mail',
      revision: 'r1',
      paused: false,
      slot: undefined,
      fresh: true,
      since: now,
      ahead: undefined,
      fired: 0,
      lastSlot: undefined,
      lastJob: undefined,
      createdAt: now,
      changedAt: now,
    } satisfies ScheduleRecord)
    assert.deepEqual(await find(store), record)
  })

  test('the same again changes nothing, not even its revision or time', async ({ store, advance }) => {
    await put(store, { revision: 'r1' })
    await move(store, undefined, (await timeOf(store)) + hour)
    const before = await find(store)
    await advance(10)
    const again = await put(store, { revision: 'r2' })
    assert.equal(again.status, 'same')
    assert.deepEqual(again.record, before)
    assert.deepEqual(await find(store), before)
  })

  test('another spec goes on from the slot that it stands at', async ({ store, advance }) => {
    const slot = await standing(store)
    await advance(10)
    const before = await find(store)
    const { status, record } = await put(store, { spec: 'other', revision: 'r2' })
    assert.equal(status, 'applied')
    const changedAt = (before?.changedAt ?? 0) + 10
    assert.deepEqual(record, { ...before, spec: 'other', revision: 'r2', changedAt })
    assert.equal(record?.slot, slot)
    assert.deepEqual(await find(store), record)
  })

  test('another spec of one that is still fresh leaves it as fresh as it was', async ({ store, advance }) => {
    const { record: before } = await put(store, {})
    await advance(10)
    const { record } = await put(store, { spec: 'other' })
    assert.equal(record?.fresh, true)
    assert.equal(record?.since, before?.since)
  })

  test('another spec of one that had come to its end makes it fresh', async ({ store, advance }) => {
    const slot = await standing(store)
    await move(store, slot, undefined, [slot])
    assert.equal((await find(store))?.fresh, false)
    await advance(10)
    const { record } = await put(store, { spec: 'other' })
    assert.equal(record?.fresh, true)
    assert.equal(record?.since, record?.changedAt)
    assert.equal(record?.fired, 1, 'what counts towards a limit is kept')
  })

  test('another rule begins afresh, and remembers the last slot', async ({ store, advance }) => {
    const slot = await standing(store)
    await move(store, slot, slot + hour, [slot])
    await advance(10)
    const { record } = await put(store, { rule: 'daily' })
    assert.equal(record?.fresh, true)
    assert.equal(record?.slot, undefined)
    assert.equal(record?.since, record?.changedAt)
    assert.equal(record?.fired, 0)
    assert.equal(record?.lastSlot, slot)
    assert.equal(record?.lastJob, jobIdOf(slot))
    assert.deepEqual(await find(store), record)
  })

  test('a paused one that is put anew stays paused', async ({ store }) => {
    await put(store, {})
    await pause(store, true)
    const { record } = await put(store, { rule: 'daily' })
    assert.equal(record?.paused, true)
    assert.equal(record?.fresh, false)
    assert.deepEqual((await sweep(store)).schedules, [])
  })

  test('it is removed once, and its name is free again', async ({ store }) => {
    const slot = await standing(store)
    await move(store, slot, slot + hour, [slot])
    assert.deepEqual(await change(store, { do: 'remove', name: 'nightly' }), removed)
    assert.equal((await change(store, { do: 'remove', name: 'nightly' })).status, 'missing')
    assert.equal(await find(store), undefined)
    assert.equal(await exists(store, jobIdOf(slot)), true, 'its jobs stay')
    const { record } = await put(store, {})
    assert.equal(record?.fired, 0)
    assert.equal(record?.lastSlot, undefined)
  })
}

export function scheduleAdvances(test: Test): void {
  test('an advance moves it and adds its jobs', async ({ store }) => {
    const slot = await standing(store)
    const { status, record } = await move(store, slot, slot + hour, [slot - 1, slot])
    assert.equal(status, 'applied')
    assert.equal(record?.slot, slot + hour)
    assert.equal(record?.fired, 2)
    assert.equal(record?.lastSlot, slot)
    assert.equal(record?.lastJob, jobIdOf(slot))
    assert.deepEqual(await find(store), record)
    assert.deepEqual(idsOf(await claim(store, 10)), [jobIdOf(slot - 1), jobIdOf(slot)])
  })

  test('one that fires nothing leaves the last slot as it was', async ({ store }) => {
    const slot = await standing(store)
    await move(store, slot, slot + 1, [slot])
    const { record } = await move(store, slot + 1, slot + 2)
    assert.equal(record?.lastSlot, slot)
    assert.equal(record?.lastJob, jobIdOf(slot))
    assert.equal(record?.fired, 1)
  })

  test('it is lost when it comes twice, from elsewhere or from a time before a change', async ({ store }) => {
    const slot = await standing(store)
    const lost = async (from: number | undefined, revision?: string) => {
      const before = await find(store)
      const { status, record } = await move(store, from, slot + 5, [slot + 4], revision)
      assert.equal(status, 'lost')
      assert.deepEqual(record, before)
      assert.deepEqual(await find(store), before)
      assert.equal(await exists(store, jobIdOf(slot + 4)), false)
    }
    await lost(undefined)
    await lost(slot + 1)
    await lost(slot, 'another revision')
    assert.equal((await move(store, slot, slot + 2, [slot])).status, 'applied')
    await lost(slot)
    await pause(store, true)
    await lost(undefined, (await find(store))?.revision)
    await lost(slot + 2, (await find(store))?.revision)
    await pause(store, false)
    await lost(slot + 2, (await find(store))?.revision)
    await lost(undefined, 'before the pause')
    await move(store, undefined, undefined)
    await lost(undefined, (await find(store))?.revision)
    assert.deepEqual(idsOf(await claim(store, 10)), [jobIdOf(slot)])
  })

  test('it is missing when the schedule is gone', async ({ store }) => {
    const result = await move(store, 1, 2, [1], 'r')
    assert.deepEqual(result, { status: 'missing', record: undefined })
    assert.equal(await exists(store, jobIdOf(1)), false)
  })

  test('a job that is there already is left as it stands', async ({ store }) => {
    const slot = await standing(store)
    await store.insert([newJob({ id: jobIdOf(slot), input: '"first"' })])
    assert.equal((await move(store, slot, slot + 1, [slot])).status, 'applied')
    assert.equal((await statesOf(store)).pending, 1)
    assert.equal((await store.get([jobIdOf(slot)]))[0]?.input, '"first"')
  })

  test('a full queue takes what a slot fires', async ({ store }) => {
    await limitDepth(store, { max: 1, low: 0 })
    await insertMany(store, 1)
    const [refused] = await store.insert([newJob()])
    assert.equal(refused?.status, 'full')
    const slot = await standing(store)
    await move(store, slot, slot + 1, [slot])
    assert.equal(await exists(store, jobIdOf(slot)), true)
  })

  test('all changes of a call are made, or none', async ({ store }) => {
    const slot = await standing(store)
    const { revision = '', since = 0 } = (await find(store)) ?? {}
    const bad = unreadable({ id: jobIdOf(slot) })
    const changes: ScheduleChange[] = [
      { do: 'put', name: 'other', rule: 'a', spec: 'b', revision: 'r' },
      {
        do: 'advance',
        name: 'nightly',
        revision,
        from: slot,
        since,
        to: slot + 1,
        at: slot,
        jobs: [bad],
        lastSlot: slot,
      },
    ]
    const went = await succeeds(store.schedule(changes))
    assert.equal((await find(store))?.slot, went ? slot + 1 : slot)
    assert.equal((await find(store, 'other')) !== undefined, went)
    assert.equal((await statesOf(store)).pending, went ? 1 : 0)
  })

  test('changes of one call are made in order', async ({ store }) => {
    const results = await store.schedule([
      { do: 'put', name: 'a', rule: 'r', spec: 's', revision: '1' },
      { do: 'put', name: 'a', rule: 'r', spec: 's', revision: '2' },
      { do: 'pause', name: 'a', paused: true, revision: '3' },
      { do: 'remove', name: 'a' },
      { do: 'remove', name: 'a' },
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['applied', 'same', 'applied', 'applied', 'missing'],
    )
  })

  test('of two handles that advance it at the same time one is lost', async ({ store, second }) => {
    const other = (await second?.()) ?? store
    const slot = await standing(store)
    const results = await Promise.all([
      move(store, slot, slot + hour, [slot]),
      move(other, slot, slot + hour, [slot]),
    ])
    assert.deepEqual(results.map(({ status }) => status).sort(), ['applied', 'lost'])
    assert.equal((await statesOf(store)).pending, 1)
    assert.equal((await find(other))?.fired, 1)
  })
}

export function schedulePauses(test: Test): void {
  test('a paused one is at no slot and never due; resumed it is fresh', async ({ store, advance }) => {
    await standing(store)
    const { status, record } = await pause(store, true)
    assert.equal(status, 'applied')
    assert.equal(record?.slot, undefined)
    assert.equal(record?.fresh, false)
    await advance(2 * hour)
    const idle = await sweep(store)
    assert.deepEqual(idle.schedules, [])
    assert.equal(idle.nextSlot, undefined)
    const resumed = await pause(store, false)
    assert.equal(resumed.record?.fresh, true)
    assert.equal(resumed.record?.since, await timeOf(store))
    assert.deepEqual(await find(store), resumed.record)
  })

  test('paused or resumed again, nothing changes', async ({ store, advance }) => {
    await put(store, {})
    assert.equal((await pause(store, false)).status, 'same')
    const { record } = await pause(store, true)
    await advance(1)
    assert.deepEqual(await pause(store, true), { status: 'same', record })
    assert.equal((await pause(store, true, 'nobody')).status, 'missing')
  })
}

export function schedulesDue(test: Test): void {
  test('a fresh one is due at once, any other at its slot and not before', async ({ store, advance }) => {
    await put(store, {})
    const now = await timeOf(store)
    const first = await sweep(store)
    assert.deepEqual(first.schedules, [{ ...(await find(store)), now }])
    assert.equal(first.nextSlot, undefined, 'a due one is named, not waited for')
    await move(store, undefined, now + 100)
    const second = await sweep(store)
    assert.deepEqual(second.schedules, [])
    assert.equal(second.nextSlot, 100)
    assert.equal(second.nextDue, undefined)
    await advance(99)
    assert.equal((await sweep(store)).nextSlot, 1)
    await advance(1)
    assert.deepEqual((await sweep(store)).schedules, [{ ...(await find(store)), now: now + 100 }])
    assert.equal((await sweep(store)).schedules.length, 1, 'named until it has gone on')
    await move(store, now + 100, undefined, [now + 100])
    const ended = await sweep(store)
    assert.deepEqual([ended.schedules, ended.nextSlot], [[], undefined])
  })

  test('a bounded number at once, the longest due first', async ({ store, advance }) => {
    const now = await timeOf(store)
    const names = Array.from({ length: 9 }, (_, i) => `s${(i * 4) % 9}`)
    for (const [i, name] of names.entries()) {
      await put(store, { name })
      await move(store, undefined, now + i + 1, [], undefined, name)
    }
    await advance(7)
    const { schedules, nextSlot, more } = await sweep(store, { limit: 4 })
    assert.deepEqual(
      schedules.map(({ name }) => name),
      names.slice(0, 4),
    )
    assert.equal(nextSlot, 1)
    assert.equal(more, true)
    const all = await sweep(store, { limit: 8 })
    assert.equal(all.schedules.length, 7)
    assert.equal(all.more, false)
  })

  test('who listens hears of a new slot', async ({ store }) => {
    const heard = async (delay: number, act: () => Promise<unknown>) => {
      const signal = nextSignal(store, ({ type }) => type === 'due')
      await act()
      assert.deepEqual(await signal, { type: 'due', delay })
    }
    const now = await timeOf(store)
    await heard(0, () => put(store, {}))
    await heard(100, () => move(store, undefined, now + 100))
    await heard(200, () => move(store, now + 100, now + 200))
    await pause(store, true)
    await heard(0, () => pause(store, false))
  })

  test('a clock that is set back makes it wait, and fires no slot again', async ({
    store,
    advance,
    jump,
  }) => {
    if (jump === undefined) return
    const slot = await standing(store)
    await advance(hour)
    await move(store, slot, slot + hour, [slot])
    jump(-hour)
    assert.deepEqual((await sweep(store)).schedules, [])
    assert.equal((await sweep(store)).nextSlot, 2 * hour)
    assert.equal((await move(store, slot, slot + hour, [slot])).status, 'lost')
    await pause(store, true)
    const { record } = await pause(store, false)
    assert.equal(record?.lastSlot, slot, 'known to whoever works out the first slot anew')
    assert.ok((record?.since ?? 0) < slot)
  })

  test('one that the clock was set back far behind is named until it is told anew where it stands', async ({
    store,
    advance,
    jump,
  }) => {
    if (jump === undefined) return
    const slot = await standing(store)
    const told = await timeOf(store)
    await put(store, { name: 'paused' })
    await pause(store, true, 'paused')
    await put(store, { name: 'ended' })
    await move(store, undefined, undefined, [], undefined, 'ended')
    jump(-farBackMs)
    assert.deepEqual((await sweep(store)).schedules, [])
    jump(-hour)
    const named = (await sweep(store)).schedules
    assert.deepEqual(named.map(({ name }) => name).sort(), ['ended', 'nightly'])
    assert.deepEqual(named[0], { ...(await find(store, named[0]?.name)), now: await timeOf(store) })
    assert.equal((await sweep(store, { limit: 1 })).schedules.length, 1)
    const now = await timeOf(store)
    assert.equal((await move(store, undefined, now + 10, [], undefined, 'ended')).status, 'applied')
    const { record } = await move(store, slot, now + 10)
    assert.deepEqual([record?.since, record?.ahead], [now, told])
    assert.deepEqual((await sweep(store)).schedules, [])
    await advance(10)
    await move(store, now + 10, now + 20, [now + 10])
    assert.deepEqual((await find(store))?.ahead, told)
    const resumed = await pause(store, false, 'paused')
    assert.equal(resumed.record?.ahead, (await find(store, 'paused'))?.createdAt)
  })

  test('an answer that was worked out before it came to the same slot again is lost', async ({
    store,
    advance,
  }) => {
    const slot = await standing(store)
    const before = await find(store)
    await advance(5)
    await move(store, slot, slot + hour)
    await move(store, slot + hour, slot)
    const { revision = '', since = 0 } = before ?? {}
    const late = { from: slot, since, to: slot + hour, at: slot, jobs: [], lastSlot: undefined }
    const { status } = await change(store, { do: 'advance', name: 'nightly', revision, ...late })
    assert.equal(status, 'lost')
  })
}

export function scheduleLists(test: Test): void {
  test('pages by name', async ({ store, advance }) => {
    const names = Array.from({ length: 7 }, (_, i) => `s${(i * 3) % 7}`)
    for (const name of names) await put(store, { name })
    await advance(5)
    const found: string[] = []
    let cursor: string | undefined
    for (let pages = 0; pages < 4; pages++) {
      const page = await store.schedules({ limit: 3, cursor })
      assert.equal(page.now, await timeOf(store))
      found.push(...page.schedules.map(({ name }) => name))
      cursor = page.cursor
      if (cursor === undefined) break
    }
    assert.deepEqual(found, [...names].sort())
    const exact = await store.schedules({ limit: 7 })
    assert.equal(exact.cursor, undefined)
  })

  test('those of given names', async ({ store }) => {
    for (const name of ['a', 'b', 'c', 'd']) await put(store, { name })
    const page = await store.schedules({ names: ['d', 'nobody', 'b', 'a'], limit: 2 })
    assert.deepEqual(
      page.schedules.map(({ name }) => name),
      ['a', 'b'],
    )
    const rest = await store.schedules({ names: ['d', 'nobody', 'b', 'a'], limit: 2, cursor: page.cursor })
    assert.deepEqual(
      rest.schedules.map(({ name }) => name),
      ['d'],
    )
    assert.equal(rest.cursor, undefined)
    assert.deepEqual((await store.schedules({ names: [], limit: 2 })).schedules, [])
  })
}

const removed: ScheduleResult = { status: 'applied', record: undefined }

async function change(store: Store, one: ScheduleChange): Promise<ScheduleResult> {
  const results = await store.schedule([one])
  assert.equal(results.length, 1)
  return results[0] as ScheduleResult
}

function put(
  store: Store,
  fields: { name?: string; rule?: string; spec?: string; revision?: string },
): Promise<ScheduleResult> {
  const revision = fresh('revision')
  return change(store, { do: 'put', name: 'nightly', rule: 'hourly', spec: 'mail', revision, ...fields })
}

function pause(store: Store, paused: boolean, name = 'nightly'): Promise<ScheduleResult> {
  return change(store, { do: 'pause', name, paused, revision: fresh('revision') })
}

/** With the revision that it has, unless another is given. */
async function move(
  store: Store,
  from: number | undefined,
  to: number | undefined,
  slots: readonly number[] = [],
  revision?: string,
  name = 'nightly',
): Promise<ScheduleResult> {
  const found = await find(store, name)
  const present = revision ?? found?.revision ?? ''
  const since = found?.since ?? 0
  const jobs = slots.map((slot): NewJob => newJob({ id: jobIdOf(slot) }))
  const lastSlot = slots.at(-1)
  const at = await timeOf(store)
  return change(store, { do: 'advance', name, revision: present, from, since, to, at, jobs, lastSlot })
}

/** A schedule that stands at a slot, an hour from now. */
async function standing(store: Store): Promise<number> {
  await put(store, {})
  const slot = (await timeOf(store)) + hour
  await move(store, undefined, slot)
  return slot
}

async function find(store: Store, name = 'nightly'): Promise<ScheduleRecord | undefined> {
  const { schedules } = await store.schedules({ names: [name], limit: 1 })
  return schedules[0]
}

function jobIdOf(slot: number): string {
  return `nightly:${slot}`
}

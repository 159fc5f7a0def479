/**
 * Schedules over real processes: four workers on one store, killed and replaced throughout. Judged by the jobs in it:
 * each slot has exactly one, and under `all` none is missing (I6).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type JobSnapshot, Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { freshPlace } from '../engine/fresh-place.js'
import { storeAt } from '../place.js'
import { Fleet } from './fleet.js'
import { leaseMs } from './scale.js'
import { scheduleMill, tick } from './schedule-jobs.js'

const workers = 4
const kills = 30
const second = 1_000

test('four processes fire each second once, killed and replaced throughout', async () => {
  const place = freshPlace()
  const mill = new Millrace(scheduleMill(place))
  await mill.open()
  const store = storeAt(place)
  await store.open()
  const fleet = new Fleet(store, 'schedule-process.js', { place, leaseMs })
  const { random, seed } = fleet
  try {
    for (let i = 0; i < 5; i++)
      await mill.schedule(`all-${i}`, { every: second, job: tick, input: null, catchUp: 'all' })
    // With jitter, so that some jobs wait when their worker dies.
    const spread = { every: second, job: tick, input: null, catchUp: 'all', jitter: '2s' } as const
    await mill.schedule('spread', spread)
    for (let i = 0; i < workers; i++) fleet.hire()
    for (let i = 0; i < kills; i++) {
      await sleep(random.between(100, 400))
      fleet.replaceAny()
    }
    await caughtUp(mill, fleet, Date.now())
    const { schedules: running } = await mill.schedules()
    for (const { name } of running) await mill.schedule(name).pause()
    fleet.killAll()

    const slots = slotsOf(await allJobs(mill))
    const told = `seed ${seed}`
    const { schedules } = await mill.schedules()
    expect(schedules, told).toHaveLength(9)
    for (const { name, catchUp, createdAt, last, fired } of schedules) {
      const found = slots.get(name) ?? []
      const every = multiplesBetween(createdAt.getTime(), last?.getTime() ?? 0)
      expect(new Set(found).size, `${told}, ${name}: each once`).toBe(found.length)
      expect(found.length, `${told}, ${name}`).toBe(fired)
      if (catchUp === 'all') expect(found, `${told}, ${name}: none missing`).toEqual(every)
      else expect(every, `${told}, ${name}`).toEqual(expect.arrayContaining(found))
    }
    expect(slots.get('all-0')?.length, told).toBeGreaterThan(5)
  } finally {
    fleet.killAll()
    await mill.close()
    await store.close()
  }
}, 90_000)

/** Until all have fired what was due at this time. */
async function caughtUp(mill: Millrace, fleet: Fleet, time: number): Promise<void> {
  const patience = Date.now() + 40_000
  for (;;) {
    fleet.checkCrashes()
    const { schedules } = await mill.schedules()
    if (schedules.every(({ next }) => Number(next) > time)) return
    if (Date.now() > patience) throw new Error('schedules stand still')
    await sleep(50)
  }
}

async function allJobs(mill: Millrace): Promise<JobSnapshot[]> {
  const jobs: JobSnapshot[] = []
  for (const state of ['scheduled', 'pending', 'running', 'retrying', 'completed', 'dead'] as const) {
    let cursor: string | undefined
    do {
      const page = await mill.jobs({ state }, { limit: 1_000, cursor })
      jobs.push(...page.jobs)
      cursor = page.cursor
    } while (cursor !== undefined)
  }
  return jobs
}

/** By schedule, in order; no job is there before its slot. */
function slotsOf(jobs: readonly JobSnapshot[]): Map<string, number[]> {
  const slots = new Map<string, number[]>()
  for (const { id, createdAt } of jobs) {
    const [, name = '', text = ''] = /^schedule:([^:]+):(.+)$/.exec(id) ?? []
    const slot = Date.parse(text)
    expect(createdAt.getTime(), id).toBeGreaterThanOrEqual(slot)
    slots.set(
      name,
      [...(slots.get(name) ?? []), slot].sort((a, b) => a - b),
    )
  }
  return slots
}

function multiplesBetween(after: number, upTo: number): number[] {
  const first = Math.floor(after / second) + 1
  const last = Math.floor(upTo / second)
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * second)
}

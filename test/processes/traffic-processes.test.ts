/**
 * Limits over real processes: four workers on one store, some of them killed and replaced. Judged by what the store
 * says of every run: when it started and when it ended, by the store's clock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { NewJob } from 'millrace'
import { expect, test } from 'vitest'
import type { Random } from '../chaos/random.js'
import { freshPlace } from '../engine/fresh-place.js'
import { newJob } from '../new-job.js'
import { storeAt } from '../place.js'
import { Fleet, mostAtOnce, type Run } from './fleet.js'
import { leaseMs, share } from './scale.js'

const jobs = 500 * share
const rate = { max: 60, per: 400, burst: 60 }
const perKey = 2
const perGroup = 3
const workers = 4
const kills = 4

test('four processes keep rate and concurrency, some of them killed and replaced, and all jobs get done', async () => {
  const place = freshPlace()
  const store = storeAt(place)
  await store.open()
  const fleet = new Fleet(store, 'traffic-process.js', { place, leaseMs })
  const { random, seed } = fleet
  try {
    await store.configure({
      gate: { of: 'job', name: 'mail' },
      change: { limit: { rate }, each: { concurrency: perKey } },
      declared: true,
    })
    await store.configure({
      gate: { of: 'queue', name: 'main' },
      change: { each: { concurrency: perGroup } },
      declared: true,
    })
    for (let i = 0; i < workers; i++) fleet.hire()
    const ids: string[] = []
    const produce = async () => {
      while (ids.length < jobs) {
        const batch = Array.from({ length: random.integer(1, 20) }, () =>
          job(random, `job-${ids.length}`, ids),
        )
        await store.insert(batch)
        await sleep(random.between(0, 40))
      }
    }
    const kill = async () => {
      for (let i = 0; i < kills; i++) {
        await sleep(random.between(200, 700) * share)
        await fleet.replaceBusy(5_000)
      }
    }
    await Promise.all([produce(), kill()])
    await fleet.allDone(ids.length)
    fleet.killAll()

    const runs = await fleet.runs(ids)
    const lost = await fleet.lost()
    const told = `seed ${seed}, ${runs.length} runs of ${ids.length} jobs, ${lost} lost`
    expect(mostInWindow(runs), told).toBeLessThanOrEqual(rate.max)
    expect(
      mostAtOnce(runs, ({ key }) => key),
      told,
    ).toBeLessThanOrEqual(perKey)
    expect(
      mostAtOnce(runs, ({ group }) => group),
      told,
    ).toBeLessThanOrEqual(perGroup)
    expect(lost, told).toBeGreaterThan(0)
    for (const of of ['queue', 'job'] as const)
      for (const gate of (await store.gates({ of, limit: 10 })).gates) expect(gate.running, told).toBe(0)
    for (const of of ['group', 'key'] as const)
      expect((await store.gates({ of, limit: 10 })).gates, told).toEqual([])
  } finally {
    fleet.killAll()
    await store.close()
  }
}, 60_000)

function job(random: Random, id: string, ids: string[]): NewJob {
  ids.push(id)
  return newJob({
    id,
    lane: random.pick([0, 2, 2, 3]),
    delay: random.chance(0.1) ? random.integer(1, 300) : 0,
    maxAttempts: 1_000,
    maxCrashes: 1_000,
    traffic: {
      gated: true,
      group: random.chance(0.7) ? `group-${random.integer(1, 8)}` : undefined,
      key: random.chance(0.7) ? `key-${random.integer(1, 12)}` : undefined,
    },
  })
}

/** The most starts in any window of the rate. */
function mostInWindow(runs: readonly Run[]): number {
  let most = 0
  let first = 0
  for (const [i, { start }] of runs.entries()) {
    while ((runs[first] as Run).start <= start - rate.per) first++
    most = Math.max(most, i - first + 1)
  }
  return most
}

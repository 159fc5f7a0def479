/**
 * Lanes over real processes: four workers on one store that is full of jobs, two of them killed and replaced.
 * Judged by what the store says of every run, as in a random run: each lane has its share, and none starves (I9).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { checkLanes } from '../chaos/checker.js'
import { freshPlace } from '../engine/fresh-place.js'
import { storeAt } from '../place.js'
import { Fleet, mostAtOnce } from './fleet.js'
import { atOnce, concurrency, image, laneMill, mail, report } from './lane-jobs.js'
import { leaseMs, share } from './scale.js'

const lanes = ['critical', 'high', 'default', 'low'] as const
const weights = [8, 4, 2, 1]
const workers = 4
const kills = 2

test('four processes give each lane its share, with limits and groups, two of them killed and replaced', async () => {
  const place = freshPlace()
  const store = storeAt(place)
  await store.open()
  const mill = new Millrace(laneMill(place))
  const fleet = new Fleet(store, 'lane-process.js', { place, leaseMs })
  const { random, seed } = fleet
  try {
    const ids: string[] = []
    const perLane = weights.map((weight) => weight * 3 * Math.ceil(30 * share))
    for (const [lane, priority] of lanes.entries()) {
      for (const job of [mail, image, report]) {
        const inputs = Array.from({ length: (perLane[lane] ?? 0) / 3 }, () => ({
          ms: random.integer(5, 25),
          tenant: `tenant-${random.integer(1, 8)}`,
        }))
        const added = await mill.enqueueMany(job, inputs, { priority })
        ids.push(...added.map(({ id }) => id))
      }
    }
    for (let i = 0; i < workers; i++) fleet.hire()
    for (let i = 0; i < kills; i++) {
      await sleep(random.between(300, 700) * share)
      await fleet.replaceBusy(5_000)
    }
    await fleet.allDone(ids.length)
    fleet.killAll()

    const runs = await fleet.runs(ids)
    const lost = await fleet.lost()
    const told = `seed ${seed}, ${runs.length} runs of ${ids.length} jobs, ${lost} lost`
    expect(checkLanes(runs, perLane, weights, { workers, concurrency }), told).toEqual([])
    expect(
      mostAtOnce(runs, () => 'all'),
      told,
    ).toBeLessThanOrEqual(atOnce)
    expect(lost, told).toBeGreaterThan(0)
  } finally {
    fleet.killAll()
    await mill.close({ grace: 0 })
    await store.close()
  }
}, 60_000)

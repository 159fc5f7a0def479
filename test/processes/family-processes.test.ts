/** Flows over real processes, some of which are killed and replaced: each parent waits for all its children, once. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { freshPlace } from '../engine/fresh-place.js'
import { storeAt } from '../place.js'
import { familyMill, leaf, sum, sums } from './family-jobs.js'
import { Fleet } from './fleet.js'
import { leaseMs, share } from './scale.js'

const flows = 40 * share
const workers = 3
const kills = 3

test('three processes bring flows to their end, some of them killed and replaced', async () => {
  const place = freshPlace()
  const store = storeAt(place)
  await store.open()
  const mill = new Millrace(familyMill(place))
  const fleet = new Fleet(store, 'family-process.js', { place, leaseMs })
  const { random, seed } = fleet
  try {
    for (let i = 0; i < workers; i++) fleet.hire()
    const added = await Promise.all(Array.from({ length: flows }, () => add()))
    for (let i = 0; i < kills; i++) {
      await sleep(random.between(50, 400))
      await fleet.replaceBusy(1_000)
    }
    const totals = await Promise.all(added.map(({ job }) => job.result({ timeout: '40s' })))
    const told = `seed ${seed}, ${await fleet.lost()} lost`
    expect(totals, told).toEqual(added.map(({ total }) => total))
    fleet.checkCrashes()
    fleet.killAll()
    const { states } = await mill.stats()
    expect(states, told).toMatchObject({
      pending: 0,
      running: 0,
      retrying: 0,
      blocked: 0,
      dead: 0,
      cancelled: 0,
    })
    expect(states.completed, told).toBe(added.reduce((count, { jobs }) => count + jobs, 0))
  } finally {
    fleet.killAll()
    await mill.close()
    await store.close()
  }

  /** A root with leaves of its own and parents of leaves. */
  async function add() {
    const leaves = () => Array.from({ length: random.integer(1, 4) }, () => random.integer(0, 100))
    const below = Array.from({ length: random.integer(0, 3) }, leaves)
    const own = leaves()
    const job = await mill.flow({
      job: sum,
      input: null,
      children: [
        ...own.map((input) => ({ job: leaf, input })),
        ...below.map((inputs) => ({
          job: sums,
          input: null,
          children: inputs.map((input) => ({ job: leaf, input })),
        })),
      ],
    })
    const all = [...own, ...below.flat()]
    return { job, total: all.reduce((sum, n) => sum + n, 0), jobs: 1 + below.length + all.length }
  }
}, 90_000)

/**
 * Several processes at once, some of whose answers get lost: no limit is exceeded, nobody holds what another has, no parent
 * runs before its children, and when all is done everything adds up.
 */
import { expect, test } from 'vitest'
import { Crowd } from './random/crowd.js'
import { crowdTraitsOf } from './random/crowd-jobs.js'
import { WithoutDesk } from './random/scripts.js'
import { eachSeed } from './random/seeds.js'

const usualRuns = 16
const runs = Number(process.env.MILLRACE_RUNS ?? usualRuns)

test(`${runs} crowds leave nothing behind that does not add up, though answers get lost`, async () => {
  const withoutDesk = new WithoutDesk()
  await eachSeed(runs, async (random, story) => {
    const traits = crowdTraitsOf(random)
    story.traits = traits
    const crowd = new Crowd(random, traits, withoutDesk)
    await crowd.open()
    try {
      await crowd.rage()
      await crowd.drain()
    } finally {
      await crowd.close()
    }
  })
  // One of them alone may have no limits and no groups.
  if (runs < usualRuns) return
  expect(withoutDesk.inserts, 'inserts without the desk').toBeGreaterThan(10)
  expect(withoutDesk.claims, 'claims without the desk').toBeGreaterThan(10)
  expect(withoutDesk.ends, 'ends without the desk').toBeGreaterThan(10)
}, 600_000)

/**
 * The same random verbs on a MemoryStore and on several RedisStores of one prefix, in long stretches that need no desk: their
 * answers are alike, and so are the jobs, counts, gates and links that they show.
 */
import { expect, test } from 'vitest'
import { InStepRun } from './random/in-step-run.js'
import { traitsOf } from './random/in-step-traits.js'
import { Pair } from './random/pair.js'
import { WithoutDesk } from './random/scripts.js'
import { eachSeed } from './random/seeds.js'

const usualRuns = 25
const runs = Number(process.env.MILLRACE_RUNS ?? usualRuns)
const steps = 100

test(`${runs} random runs show on Redis what they show in memory`, async () => {
  const withoutDesk = new WithoutDesk()
  await eachSeed(runs, async (random, story) => {
    const traits = traitsOf(random)
    story.traits = traits
    const pair = new Pair(random, story.steps)
    await pair.open()
    try {
      const run = new InStepRun(random, traits, pair, withoutDesk)
      await run.begin()
      for (let step = 1; step <= steps; step++) {
        await run.take()
        if (step % 10 === 0) await run.compare()
      }
      await run.compareAll()
    } finally {
      await pair.close()
    }
  })
  // One of them alone may have no limits and no groups.
  if (runs < usualRuns) return
  expect(withoutDesk.inserts, 'inserts without the desk').toBeGreaterThan(10)
  expect(withoutDesk.claims, 'claims without the desk').toBeGreaterThan(10)
  expect(withoutDesk.ends, 'ends without the desk').toBeGreaterThan(10)
}, 600_000)

/** Two writes of a flow may be on their way at once, and which of them is done first is open. */
import { defineJob, Millrace } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import { scripts } from '../../src/stores/redis/scripts.js'
import { newJob } from '../new-job.js'
import { intercept } from './intercept.js'
import { freshPrefix, serverUrl } from './redis.js'

test('a write that was refused is there before those that wait for it', async () => {
  const prefix = freshPrefix()
  const job = defineJob<number>({ name: 'work', run() {} })
  const mill = new Millrace({ store: new RedisStore({ url: serverUrl(), prefix, warn: false }), jobs: [job] })
  onTestFinished(() => mill.close())
  await mill.open()
  const other = new RedisStore({ url: serverUrl(), prefix, warn: false })
  onTestFinished(() => other.close())
  await other.open()
  let flowWrites = 0
  let isOther = false
  intercept(async (run, script) => {
    // Somebody else writes between the second one's look and its write, so it is refused.
    if (script === scripts.write && !isOther && ++flowWrites === 2) {
      isOther = true
      await other.insert([newJob({ id: 'other', tags: ['other'] })])
      isOther = false
    }
    return run()
  })
  const children = Array.from({ length: 1_600 }, (_, i) => ({ job, input: i, children: [{ job, input: i }] }))
  const flow = await mill.flow({ job, input: 0, children })
  expect(flowWrites).toBeGreaterThan(3)
  expect(await flow.state()).toBe('blocked')
  expect((await mill.stats()).totals.enqueued).toBe(1 + 2 * 1_600 + 1)
})

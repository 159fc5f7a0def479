import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { realMill } from '../engine/mill.js'

test('a worker with a transactional job does not start where there are no transactions', async () => {
  const post = defineJob({ name: 'post', transactional: true, run: () => {} })
  const mill = realMill({ jobs: [post] })
  await expect(mill.worker({ handleSignals: false }).start()).rejects.toMatchObject({
    code: 'STORE_REFUSED',
    field: 'transactional',
    message: expect.stringContaining("job 'post' is transactional, and the memory store has no transactions"),
  })
})

// How to test jobs: no server, no waiting. Any test runner will do; this file only uses assertions.
import assert from 'node:assert/strict'
import { defineJob } from 'millrace'
import { runJob, TestMill } from 'millrace/testing'

const remind = defineJob({ name: 'remind', run: (user: string) => `reminded ${user}` })

const signUp = defineJob({
  name: 'sign-up',
  maxAttempts: 3,
  backoff: { type: 'fixed', initialDelay: '10m', jitter: 'none' },
  async run({ user }: { user: string }, { attempt, enqueue }) {
    if (attempt === 1) throw new Error('the mail server is down')
    await enqueue(remind, user, { delay: '7d' })
    return `welcome ${user}`
  },
})

// One attempt of one handler, by itself.
const first = await runJob(signUp, { user: 'ann' })
assert.equal(first.state, 'retrying')
const second = await runJob(signUp, { user: 'ann' }, { attempt: 2 })
assert.equal(second.result, 'welcome ann')
assert.deepEqual(second.enqueued[0]?.input, 'ann')

// The whole system in virtual time.
const mill = new TestMill({ jobs: [signUp, remind] })
const job = await mill.enqueue(signUp, { user: 'bob' })
await mill.drain()
assert.equal(await job.state(), 'retrying')
await mill.advance('10m')
assert.equal(await job.result(), 'welcome bob')
const [reminder] = await mill.assertEnqueued(remind, undefined, 1)
assert.equal(reminder?.state, 'scheduled')
await mill.advance('7d')
assert.equal(await mill.job(reminder?.id ?? '', remind).result(), 'reminded bob')
await mill.close()

console.log('a week and ten minutes passed in a moment')

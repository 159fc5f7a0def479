// Define a job, enqueue it, run a worker, read the result. The file outlives every process that uses it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineJob, Millrace } from 'millrace'
import { z } from 'zod'

const sendEmail = defineJob({
  name: 'send-email',
  input: z.object({ to: z.email(), template: z.string() }), // checked when enqueued and again before it runs
  maxAttempts: 5,
  timeout: '30s',
  async run({ to, template }, { attempt, log }) {
    log(`attempt ${attempt}`)
    return { messageId: `<${template}-for-${to}>` } // call your mail service here
  },
})

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const mill = new Millrace({ store: `sqlite:${join(folder, 'jobs.db')}`, jobs: [sendEmail] })

// Anywhere in your code. When this resolves, the job is on disk.
const job = await mill.enqueue(sendEmail, { to: 'ada@example.com', template: 'welcome' })
console.log('state:', await job.state())

// In the same process or in any number of others.
const worker = mill.worker({ concurrency: 50 })
await worker.start()

const { messageId } = await job.result({ timeout: '5s' })
console.log('sent:', messageId)
console.log('state:', await job.state())

await mill.close() // lets running jobs end, then closes the file
await rm(folder, { recursive: true })

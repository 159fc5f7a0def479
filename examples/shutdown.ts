// A deploy: SIGTERM arrives while jobs run. Short ones end, long ones go back to the queue, none is lost.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Millrace } from 'millrace'

const work = defineJob<{ ms: number }, void>({
  name: 'work',
  async run({ ms }, { attempt, signal }) {
    console.log(`  ${ms} ms of work begins, attempt ${attempt}`)
    await sleep(ms, undefined, { signal }) // a handler that heeds the signal stops at once when it must
    console.log(`  ${ms} ms of work done`)
  },
})

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const store = `sqlite:${join(folder, 'jobs.db')}`

console.log('The old version runs:')
const old = new Millrace({ store, jobs: [work] })
// Workers listen to SIGTERM and SIGINT themselves. `grace` is the time that running jobs have left then.
const worker = old.worker({ grace: '1s' })
await worker.start()
await old.enqueueMany(work, [{ ms: 300 }, { ms: 3_000 }])
while (worker.active < 2) await sleep(5)

// When all has drained the process ends, unless somebody listens, as this program does to tell its story.
process.on('SIGTERM', () => console.log(`SIGTERM: ${worker.active} jobs are running`))
process.kill(process.pid, 'SIGTERM')
await sleep(100)
await old.enqueue(work, { ms: 100 }) // enqueueing goes on, for whoever takes over
await worker.stop() // under way already; resolves when drained
const { completed, pending, running } = (await old.stats()).states
console.log(`stopped: ${completed} completed, ${pending} pending, ${running} running`)
await old.close()

console.log('The new version goes on:')
const next = new Millrace({ store, jobs: [work] })
await next.worker().start()
await next.queue('default').drain({ timeout: '20s' })
const { states, totals } = await next.stats()
console.log(
  `${states.completed} of ${totals.enqueued} completed, ${totals.failed} failed, ${totals.crashed} crashed`,
)
await next.close()
await rm(folder, { recursive: true })

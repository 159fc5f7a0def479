// A long job tells how far it is. Any process can watch it, and its log lines are kept with it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Millrace } from 'millrace'

const importFile = defineJob<{ rows: number }, { imported: number; skipped: number }>({
  name: 'import-file',
  async run({ rows }, { signal, progress, log }) {
    let skipped = 0
    for (let row = 1; row <= rows; row++) {
      await sleep(20, undefined, { signal }) // stops at once on timeout, cancel or shutdown
      if (row % 40 === 0) {
        skipped++
        log(`row ${row} has no price`, 'warn')
      }
      progress({ row, rows }) // as often as you like: writes are gathered
    }
    return { imported: rows - skipped, skipped }
  },
})

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const store = `sqlite:${join(folder, 'jobs.db')}`
const mill = new Millrace({ store, jobs: [importFile] })
await mill.worker().start()

// A second instance on the same file stands for your web server.
const web = new Millrace({ store })
const { id } = await web.enqueue(importFile, { rows: 100 })

for await (const { state, progress } of web.job(id, importFile).watch()) {
  const { row = 0, rows = 100 } = (progress ?? {}) as { row?: number; rows?: number }
  console.log(`${state.padEnd(9)} ${'#'.repeat((row / rows) * 20).padEnd(20, '.')} ${row} of ${rows}`)
}

const job = web.job(id, importFile)
console.log('result:', await job.result())
for (const { level, text } of await job.logs()) console.log(`log: ${level}: ${text}`)

await Promise.all([web.close(), mill.close()])
await rm(folder, { recursive: true })

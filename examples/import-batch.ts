// A batch of jobs that tells when the first of them dies, and when all have ended. It grows while it runs.
import { defineJob, Millrace } from 'millrace'

const importFile = defineJob({
  name: 'import-file',
  async run({ batch, rows }: { batch: string; rows: string[] }) {
    // Jobs of a batch may add to it; it is not over before these have ended.
    await mill.batch(batch).enqueueMany(importRow, rows)
  },
})

const importRow = defineJob({
  name: 'import-row',
  maxAttempts: 1,
  run(row: string) {
    if (row.startsWith('?')) throw new Error(`cannot read '${row}'`)
  },
})

const tell = defineJob({ name: 'tell', run: (text: string) => console.log(text) })

const mill = new Millrace({ store: 'memory:', jobs: [importFile, importRow, tell] })
await mill.worker({ concurrency: 2 }).start()

await load('clean', ['a', 'b', 'c'])
await load('dirty', ['a', '?b', 'c', '?d'])
await mill.close()

async function load(id: string, rows: string[]): Promise<void> {
  const batch = await mill.batch({
    id,
    onDead: { job: tell, input: `${id}: something is wrong, the rest goes on` },
    onSuccess: { job: tell, input: `${id}: all imported` },
    onComplete: { job: tell, input: `${id}: done` },
  })
  await batch.enqueue(importFile, { batch: id, rows })
  await batch.seal() // no more from here; those inside may still add
  await batch.result()
  await mill.queue('default').drain()
  const progress = await batch.progress()
  console.log(`${id}: ${progress?.jobs} jobs, ${progress?.left} left`)
}

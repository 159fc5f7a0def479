/** A process of an older version, which was open before the file was migrated, settles without telling the gates. */
import Database from 'better-sqlite3'
import { defineJob, Millrace } from 'millrace'
import { expect, test } from 'vitest'
import { file } from '../engine/mill.js'

test('a gate that counts jobs as running that do not run is put right, and lets others start', async () => {
  const path = file()
  const work = defineJob({ name: 'work', limit: { concurrency: 1 }, run: () => 'done' })
  const mill = new Millrace({ store: `sqlite:${path}`, jobs: [work] })
  await mill.open()
  const db = new Database(path)
  db.prepare("UPDATE millrace_gate SET running = 2 WHERE scope = 'job' AND name = 'work'").run()
  db.close()
  expect((await mill.enqueue(work, null)).status).toBe('inserted')
  expect((await mill.definition(work).status()).room).toBe(0)
  await mill.worker({ handleSignals: false, poll: '20ms' }).start()
  await mill.queue('default').drain()
  expect((await mill.definition(work).status()).room).toBe(1)
  await mill.close()
})

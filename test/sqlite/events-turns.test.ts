/** A projection with slow handlers leaves room for writers of other processes. */
import { defineEvent, defineProjection, EventStore, sqliteLog } from 'millrace/events'
import { expect, onTestFinished, test } from 'vitest'
import { freshFile } from '../events/logs.js'

test('appends of another process get through while a backlog is worked on slowly', async () => {
  const file = freshFile()
  const Noted = defineEvent<'noted', number>({ type: 'noted' })
  const slow = defineProjection({
    name: 'slow',
    events: [Noted],
    on: { noted: () => new Promise((resolve) => setTimeout(resolve, 20)) },
  })
  // Patience of two turns: without turns, a batch takes longer than that.
  const open = (projections: (typeof slow)[]) =>
    new EventStore({
      log: sqliteLog({ file, busyTimeout: '1.5s', synchronous: 'normal' }),
      events: [Noted],
      projections,
    })
  const [working, writing] = [open([slow]), open([])]
  onTestFinished(() => Promise.all([working.close({ grace: 0 }), writing.close()]).then(() => {}))
  for (let i = 0; i < 5; i++)
    await writing.append(
      `s-${i}`,
      Array.from({ length: 100 }, (_, n) => Noted(n)),
    )
  await working.worker({ handleSignals: false }).start()
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100)) // wherever the worker is by then
    expect(await writing.append(`later-${i}`, [Noted(i)])).toMatchObject({ version: 1 })
  }
  expect((await writing.stats()).projections.find(({ name }) => name === 'slow')?.behind).toBeGreaterThan(0)
})

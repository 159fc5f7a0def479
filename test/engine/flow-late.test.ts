/** What still runs below a job that was cancelled, while a job above undoes what was done. */
import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { realMill, signal } from './mill.js'

test('a job that is busy below a cancelled one is undone with the others, when it has ended', async () => {
  const undone: string[] = []
  const begun = signal()
  const mayEnd = signal()
  const undo = defineJob({
    name: 'undo',
    run: ({ input }: { input: string; result: string }) => void undone.push(input),
  })
  const quick = defineJob({ name: 'quick', run: (input: string) => input })
  const slow = defineJob({
    name: 'slow',
    // It does not mind being told to stop.
    async run(input: string) {
      begun.give()
      await mayEnd.promise
      return input
    },
  })
  const mill = realMill({ jobs: [undo, quick, slow] })
  await mill.worker({ handleSignals: false, poll: '20ms' }).start()
  const flow = await mill.flow({
    job: quick,
    input: 'trip',
    children: [
      { job: quick, input: 'flight', compensate: undo },
      {
        job: quick,
        input: 'hotel',
        onFailure: 'compensate',
        children: [{ job: slow, input: 'room', compensate: undo }],
      },
    ],
  })
  await begun.promise
  const hotel = (await flow.graph()).nodes.find(({ id, after }) => id !== flow.id && after.length > 0)
  await mill.job(hotel?.id as string).cancel()
  const states: string[] = []
  for await (const { state } of flow.watch()) {
    if (states.at(-1) !== state) states.push(state)
    if (state === 'scheduled') mayEnd.give()
    if (state === 'dead') break
  }
  await mill.queue('default').drain()
  expect(states).toContain('scheduled')
  expect(undone).toEqual(['room', 'flight'])
})

import { defineJob } from 'millrace'
import { expect, test } from 'vitest'
import { testMill } from './mill.js'

const report = defineJob<{ of: string }, string>({ name: 'report', run: ({ of }) => of })

test('x', async () => {
  const slots: unknown[] = []
  const seen = defineJob<null>({
    name: 'seen',
    run: (_, { schedule, jobId }) => void slots.push([schedule?.name, schedule?.slot.toISOString(), jobId]),
  })
  const mill = testMill({ jobs: [report, seen] })
  const handle = await mill.schedule('nightly', {
    cron: '30 2 * * *',
    tz: 'America/New_York',
    job: seen,
    input: null,
  })
  expect(await handle.next(2)).toEqual([new Date('2030-01-01T07:30:00Z'), new Date('2030-01-02T07:30:00Z')])
  await mill.advance('3d')
  expect(slots).toEqual([])
  console.log(await handle.get(), await mill.schedules())
})

// A report each night at 02:30 in New York, also in the night in which the clocks there leave that time out.
import { defineJob } from 'millrace'
import { TestMill } from 'millrace/testing'

const newYork = new Intl.DateTimeFormat('sv', {
  timeZone: 'America/New_York',
  dateStyle: 'short',
  timeStyle: 'short',
})

const report = defineJob<{ of: string }>({
  name: 'report',
  run({ of }, { schedule }) {
    const slot = schedule?.slot ?? new Date()
    console.log(`${of}: ${newYork.format(slot)} in New York, ${slot.toISOString().slice(11, 16)} UTC`)
  },
})

// In virtual time, so that weeks pass in a moment. A real one: new Millrace({ store: 'sqlite:jobs.db', jobs }).
const mill = new TestMill({ start: '2030-03-08T12:00:00Z', jobs: [report] })

// Each deploy may repeat this: what is there already does not change.
const nightly = await mill.schedule('nightly-report', {
  cron: '30 2 * * *',
  tz: 'America/New_York',
  job: report,
  input: { of: 'sales' },
  catchUp: 'last', // after downtime, the newest report that was missed
})
console.log('next:', (await nightly.next(2)).map((slot) => slot.toISOString()).join(', '))

await mill.advance('3d') // the clocks go forward on 10 March, from 02:00 to 03:00

mill.on('missed', ({ schedule, count }) => console.log(`${schedule}: ${count} nights without a report`))
await mill.clock.advance(3 * 86_400_000) // three days without a worker
await mill.drain()

await nightly.pause()
await mill.advance('7d')
await nightly.resume()
await mill.advance('1d')

const { fired, last, next } = (await nightly.get()) ?? {}
console.log(`${fired} fired, the last ${last?.toISOString()}, the next ${next?.toISOString()}`)
await mill.close()

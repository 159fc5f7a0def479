// A job that takes days: it sleeps, asks, waits for an answer, and holds no slot meanwhile. Tested in milliseconds.
import { defineJob } from 'millrace'
import { TestMill } from 'millrace/testing'
import { z } from 'zod'

const answer = z.object({ approved: z.boolean(), by: z.string() })

const expense = defineJob({
  name: 'expense',
  input: z.object({ id: z.string(), amount: z.number() }),
  async run({ id, amount }, { step }) {
    // Done once, however often the handler runs; `key` tells a provider so.
    const request = await step('file', ({ key }) => ({ number: `R-${id}`, key }))
    await step.sleep('2d') // the employee may still take it back
    await step('ask', () => console.log(`${today()} the manager is asked for ${amount}`))
    const reply = await step.waitFor(`expense:${id}`, { timeout: '3d', schema: answer })
    if (reply === undefined) return `${request.number}: nobody answered`
    const { paid, told } = await step.all({
      paid: () => step('pay', () => (reply.approved ? amount : 0)),
      told: () => step('tell', () => `told by ${reply.by}`),
    })
    return `${request.number}: ${paid} paid, ${told}`
  },
})

const mill = new TestMill({ jobs: [expense], start: '2030-01-01T09:00:00Z' })
const started = performance.now()
const trip = await mill.enqueue(expense, { id: 'trip', amount: 120 })
const lunch = await mill.enqueue(expense, { id: 'lunch', amount: 9 })

await mill.drain()
console.log(`${today()} trip: ${await trip.state()}, ${(await mill.stats()).states.running} running`)
await mill.advance('2d')
await mill.advance('1h')
// The manager has an hour to spare.
const { woken } = await mill.signal('expense:trip', { approved: true, by: 'ann' }, { id: 'click-1' })
console.log(`${today()} the answer woke ${woken} job`)
await mill.signal('expense:trip', { approved: true, by: 'ann' }, { id: 'click-1' }) // a second click is none
await mill.drain()
console.log(await trip.result())

await mill.advance('3d')
console.log(await lunch.result())
for (const { name, at } of await lunch.steps()) console.log(`  ${at.toISOString().slice(0, 10)} ${name}`)
console.log(`attempts: ${(await lunch.get())?.attempt}`)
console.log(`in a moment: ${performance.now() - started < 5_000}`)
await mill.close()

function today(): string {
  return new Date(mill.clock.now()).toISOString().slice(0, 16)
}

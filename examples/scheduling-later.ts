// Jobs that start later: after a delay, at a time, or when the handler says "not yet". And jobs called off.
import { defineJob, Millrace, snooze } from 'millrace'

const remind = defineJob<{ of: string }, string>({
  name: 'remind',
  run({ of }, { createdAt }) {
    const tenths = Math.floor((Date.now() - createdAt.getTime()) / 100)
    return `${of}: ran ${tenths / 10} s after it was enqueued`
  },
})

let looks = 0
const awaitParcel = defineJob<{ parcel: string }, string>({
  name: 'await-parcel',
  maxAttempts: 1, // a snooze spends no attempt, so the handler may look as often as it likes
  run({ parcel }, { attempt }) {
    looks++
    return looks < 4 ? snooze('50ms') : `${parcel} has arrived: look ${looks}, attempt ${attempt}`
  },
})

const mill = new Millrace({ store: 'memory:', jobs: [remind, awaitParcel] })
await mill.worker().start()

const later = await mill.enqueue(remind, { of: 'a delay' }, { delay: '300ms' }) // or '10m', '2h', '7d'
const atTime = await mill.enqueue(remind, { of: 'a time' }, { runAt: new Date(Date.now() + 600) })
const nextYear = await mill.enqueue(remind, { of: 'the domain' }, { delay: '365d' })
const parcel = await mill.enqueue(awaitParcel, { parcel: 'parcel 7' })
const withdrawn = await mill.enqueue(remind, { of: 'the order' }, { delay: '1h' })

// The same id is the same job, so that nothing is scheduled twice.
await mill.enqueue(remind, { of: 'the invoice' }, { id: 'invoice-12', delay: '14d' })
const again = await mill.enqueue(remind, { of: 'the invoice' }, { id: 'invoice-12', delay: '14d' })
console.log(`${again.id}: duplicate ${again.duplicate}`)

console.log('the order:', await withdrawn.cancel('the customer withdrew it'))
console.log(await parcel.result())
console.log(await later.result())
console.log(await atTime.result())

const domain = await nextYear.get()
const days = Math.round((Number(domain?.dueAt) - Date.now()) / 86_400_000)
console.log(`the domain: ${domain?.state}, due in ${days} days`)

const { completed, cancelled, scheduled } = (await mill.stats()).states
console.log(`${completed} completed, ${cancelled} cancelled, ${scheduled} still to come`)
await mill.close()

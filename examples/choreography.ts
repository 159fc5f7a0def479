// A process without a conductor: jobs react to each other by what they enqueue and by signals.
import { defineJob, Millrace } from 'millrace'

interface Order {
  readonly id: string
  readonly stock: number
}

/** Waits for whatever the others say about its order; none of them knows this job. */
const placeOrder = defineJob({
  name: 'place-order',
  async run(order: Order, { step, enqueue }) {
    await step('ask', async ({ key }) => {
      console.log(`${order.id}: placed`)
      await mill.enqueue(reserveStock, order, { id: key }) // once, even if this step runs twice
    })
    const reserved = await step.waitFor<boolean>(`${order.id}:stock`, { timeout: '1h' })
    if (reserved !== true) return 'sold out'
    const paid = await step.waitFor<number>(`${order.id}:payment`, { timeout: '1h' })
    if (paid === undefined) {
      await enqueue(releaseStock, order)
      return 'not paid in time'
    }
    return `paid ${paid}`
  },
})

const reserveStock = defineJob({
  name: 'reserve-stock',
  async run(order: Order, { jobId, enqueue }) {
    const reserved = order.stock > 0
    console.log(`${order.id}: ${reserved ? 'reserved' : 'out of stock'}`)
    await mill.signal(`${order.id}:stock`, reserved, { id: jobId }) // sent once, however often this runs
    if (reserved) await enqueue(takePayment, order)
  },
})

const takePayment = defineJob({
  name: 'take-payment',
  async run(order: Order, { jobId }) {
    console.log(`${order.id}: charged`)
    await mill.signal(`${order.id}:payment`, 25, { id: jobId })
  },
})

const releaseStock = defineJob({
  name: 'release-stock',
  run: (order: Order) => console.log(`${order.id}: released`),
})

const mill = new Millrace({
  store: 'memory:',
  jobs: [placeOrder, reserveStock, takePayment, releaseStock],
})
await mill.worker().start()
const first = await mill.enqueue(placeOrder, { id: 'order-1', stock: 3 })
console.log(`order-1: ${await first.result()}`)
const second = await mill.enqueue(placeOrder, { id: 'order-2', stock: 0 })
console.log(`order-2: ${await second.result()}`)
await mill.close()

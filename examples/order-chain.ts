// One job after the other, each with what the one before it gave. What dies holds the rest up until it is mended.
import { defineJob, Millrace } from 'millrace'

let printerJammed = true

const placeOrder = defineJob({
  name: 'place-order',
  run: ({ items }: { items: number }) => ({ order: 'A-1', total: items * 20 }),
})

const printInvoice = defineJob({
  name: 'print-invoice',
  maxAttempts: 1,
  async run(_: null, { resultOf }) {
    const { order, total } = await resultOf(placeOrder)
    if (printerJammed) throw new Error('the printer is jammed')
    return { invoice: `I-${order}`, total }
  },
})

const confirm = defineJob({
  name: 'confirm',
  async run({ to }: { to: string }, { resultOf }) {
    const { invoice, total } = await resultOf(printInvoice)
    return `told ${to}: ${invoice} over ${total}`
  },
})

const mill = new Millrace({ store: 'memory:', jobs: [placeOrder, printInvoice, confirm] })
const chain = await mill.chain(
  [
    { job: placeOrder, input: { items: 3 } },
    { job: printInvoice, input: null },
    { job: confirm, input: { to: 'ann@example.com' } },
  ],
  { id: 'click-1' },
)
await mill.worker().start()

await chain.result().catch((error: Error) => console.log(error.message))
await show()

// The invoice is printed after all; what died only of it waits again.
printerJammed = false
const [invoice] = (await mill.dead.list({ name: 'print-invoice' })).jobs
if (invoice !== undefined) await mill.dead.retry(invoice.id)
console.log(await chain.result())
await show()
await mill.close()

async function show(): Promise<void> {
  const { nodes } = await chain.graph()
  console.log(nodes.map(({ name, state }) => `${name} ${state}`).join(' after '))
}

// An order and its job commit together: never an order without its mail, never a mail for no order.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { defineJob, Millrace } from 'millrace'

const sendReceipt = defineJob<{ order: number }, string>({
  name: 'send-receipt',
  run: ({ order }) => `receipt for order ${order}`,
})

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const file = join(folder, 'shop.db')

// The jobs live in the same file as your own tables.
const db = new Database(file)
db.exec(
  'CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, paid INTEGER NOT NULL CHECK (paid >= 0))',
)

const mill = new Millrace({ store: `sqlite:${file}`, jobs: [sendReceipt] })
await mill.open() // a transaction cannot wait for it later

const placeOrder = db.transaction((item: string, paid: number) => {
  const { lastInsertRowid } = db.prepare('INSERT INTO orders (item, paid) VALUES (?, 0)').run(item)
  const order = Number(lastInsertRowid)
  void mill.enqueue(sendReceipt, { order }, { tx: db, id: `receipt-${order}` }) // written when it returns
  db.prepare('UPDATE orders SET paid = ? WHERE id = ?').run(paid, order)
  return order
})

async function report(what: string): Promise<void> {
  const orders = db.prepare('SELECT count(*) FROM orders').pluck().get()
  const { pending } = await mill.queue('default').depth()
  console.log(`${what}: ${orders} orders, ${pending} jobs`)
}

placeOrder('tea', 450)
await report('after a commit')

try {
  placeOrder('coffee', -1) // violates the CHECK after the job was enqueued
} catch (error) {
  console.log('refused:', (error as Error).message)
}
await report('after a rollback')

await mill.worker().start()
console.log(await mill.job('receipt-1', sendReceipt).result({ timeout: '5s' }))

await mill.close()
db.close()
await rm(folder, { recursive: true })

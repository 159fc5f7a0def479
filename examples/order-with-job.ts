// A web handler that writes an order and its job in one transaction of PostgreSQL: both, or neither.
// DATABASE_URL says where; what is made there goes again at the end.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { defineJob, Millrace } from 'millrace'
import { postgresStore } from 'millrace/postgres'
import pg from 'pg'

const url = process.env.DATABASE_URL
if (url === undefined) throw new Error('set DATABASE_URL, as in postgres://user:password@localhost:5432/shop')

const sendReceipt = defineJob<{ order: number }, string>({
  name: 'send-receipt',
  run: ({ order }) => `receipt for order ${order}`,
})

const shop = `shop_${process.pid}`
const pool = new pg.Pool({ connectionString: url })
await pool.query(`CREATE SCHEMA ${shop};
  CREATE TABLE ${shop}.orders (id serial PRIMARY KEY, item text NOT NULL, paid int NOT NULL CHECK (paid >= 0))`)

// The jobs live in a schema of their own, in the same database.
const mill = new Millrace({ store: postgresStore({ pool, schema: `${shop}_jobs` }), jobs: [sendReceipt] })
await mill.open() // a transaction cannot wait for it later

async function placeOrder(item: string, paid: number): Promise<number> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const insert = `INSERT INTO ${shop}.orders (item, paid) VALUES ($1, 0) RETURNING id`
    const order: number = (await client.query(insert, [item])).rows[0].id
    await mill.enqueue(sendReceipt, { order }, { tx: client, id: `receipt-${order}` })
    await client.query(`UPDATE ${shop}.orders SET paid = $2 WHERE id = $1`, [order, paid])
    await client.query('COMMIT')
    return order
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

const server = createServer((request, response) => {
  const { searchParams } = new URL(`http://localhost${request.url}`)
  placeOrder(searchParams.get('item') ?? '', Number(searchParams.get('paid'))).then(
    (order) => response.writeHead(201).end(`order ${order}`),
    (error: Error) => response.writeHead(422).end(error.message),
  )
})
await once(server.listen(0), 'listening')
const address = `http://localhost:${(server.address() as AddressInfo).port}`

async function post(item: string, paid: number): Promise<void> {
  const response = await fetch(`${address}?item=${item}&paid=${paid}`, { method: 'POST' })
  const orders = (await pool.query(`SELECT FROM ${shop}.orders`)).rowCount
  const { pending } = await mill.queue('default').depth()
  console.log(`${item}: ${response.status}, ${await response.text()}; ${orders} orders, ${pending} jobs`)
}

await post('tea', 450)
await post('coffee', -1) // violates the CHECK after the job was enqueued

await mill.worker().start()
console.log(await mill.job('receipt-1', sendReceipt).result({ timeout: '5s' }))

server.close()
await mill.close()
await pool.query(`DROP SCHEMA ${shop}, ${shop}_jobs CASCADE`)
await pool.end()

/** The examples that need a server. */
import { expect, test } from 'vitest'
import { runExample } from '../examples/process.js'
import { asAdmin, serverUrl } from './postgres.js'

test('order-with-job runs to its end and leaves nothing behind', async () => {
  const { code, signal, stdout, stderr } = await runExample('order-with-job', [], {
    DATABASE_URL: serverUrl(),
  })
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
  expect(stdout.split('\n')).toEqual([
    'tea: 201, order 1; 1 orders, 1 jobs',
    'coffee: 422, new row for relation "orders" violates check constraint "orders_paid_check"; 1 orders, 1 jobs',
    'receipt for order 1',
    '',
  ])
  const left = await asAdmin((client) =>
    client.query("SELECT FROM pg_namespace WHERE nspname LIKE 'shop\\_%'"),
  )
  expect(left.rowCount).toBe(0)
})

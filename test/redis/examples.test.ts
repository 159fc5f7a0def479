/** The examples that need a server. */
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { type Running, startExample, temporaryFolder } from '../examples/process.js'
import { serverUrl } from './redis.js'

test('order-outbox sends a mail for each order, once, whoever is killed on the way', async () => {
  const folder = await temporaryFolder()
  const file = `${folder}/shop.db`
  const url = new URL(serverUrl())
  url.pathname = '/9' // a database that no other test uses
  const env = { SHOP_DB: file, REDIS_URL: url.href }
  const start = (role: string, ...args: string[]) => startExample('order-outbox', [role, ...args], env)
  const orders = 400

  // Made first, so that three processes do not meet over a file that is not there.
  expect((await start('shop', '1').ended).code).toBe(0)
  const running: Record<string, Running> = {
    relay: start('relay'),
    mailer: start('mailer'),
    shop: start('shop', `${orders}`),
  }
  for (let kill = 0; kill < 9; kill++) {
    const role = ['relay', 'mailer', 'shop'][kill % 3] as string
    await sleep(20 + Math.random() * 300) // when a process dies is the point
    running[role]?.signal('SIGKILL')
    running[role] = start(role, ...(role === 'shop' ? [`${orders}`] : []))
  }
  const db = new Database(file, { readonly: true })
  const count = (what: string) => db.prepare<[], number>(`SELECT ${what}`).pluck().get()
  await expect.poll(() => count('count(*) FROM mails'), { timeout: 25_000, interval: 50 }).toBe(orders)
  expect(count('count(*) FROM orders')).toBe(orders)
  expect(count('count(DISTINCT order_id) FROM mails')).toBe(orders)
  db.close()
}, 60_000)

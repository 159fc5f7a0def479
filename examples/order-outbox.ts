// Orders in a file, their mails in a queue on Redis. Three processes, each of which may be killed at any moment: every order
// gets its mail, and gets it once.
//   SHOP_DB=shop.db REDIS_URL=redis://localhost node order-outbox.js shop 20
//   … node order-outbox.js relay        hands on what the shop has written
//   … node order-outbox.js mailer       sends the mails
import Database from 'better-sqlite3'
import { defineJob, Millrace } from 'millrace'
import { Inbox, Outbox } from 'millrace/outbox'

const { SHOP_DB: file, REDIS_URL: redis } = process.env
if (file === undefined || redis === undefined)
  throw new Error('set SHOP_DB to a file and REDIS_URL to a server')
const [role, count = '10'] = process.argv.slice(2)

const db = new Database(file)
db.pragma('busy_timeout = 5000')
db.exec(`CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS mails (order_id INTEGER NOT NULL, sent_at TEXT NOT NULL)`)

const inbox = new Inbox({ store: `sqlite:${file}`, consumer: 'mailer' })

const sendMail = defineJob<{ order: number }>({
  name: 'send-mail',
  run: ({ order }, { jobId }) => {
    // Sent and noted in one transaction: an attempt that comes once more finds the note.
    const send = db.transaction(() => {
      void inbox.once(db, jobId, () =>
        db.prepare('INSERT INTO mails VALUES (?, ?)').run(order, new Date().toISOString()),
      )
    })
    send.immediate()
  },
})

const outbox = new Outbox({ store: `sqlite:${file}` })
const mill = new Millrace({ store: redis, jobs: [sendMail] })

switch (role) {
  case 'shop':
    await placeOrders(Number(count))
    break
  case 'relay':
    await outbox.relay({ to: mill, timeout: '1s' }).start()
    break
  case 'mailer':
    await inbox.open()
    await mill.worker({ lease: '2s' }).start()
    break
  default:
    throw new Error(`${role} is none of shop, relay, mailer`)
}
console.log(`${role} is ready`)

/** Goes on where it was killed. */
async function placeOrders(wanted: number): Promise<void> {
  await outbox.open()
  const place = db.transaction((item: string) => {
    const { lastInsertRowid } = db.prepare('INSERT INTO orders (item) VALUES (?)').run(item)
    void outbox.enqueue(db, sendMail, { order: Number(lastInsertRowid) })
  })
  const placed = db.prepare<[], number>('SELECT count(*) FROM orders').pluck()
  while ((placed.get() as number) < wanted) place.immediate(`tea ${placed.get()}`)
  await outbox.close()
}

// What a handler writes into the file of the jobs commits together with the job's completion: both or neither.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { defineJob, Millrace } from 'millrace'

const notify = defineJob({ name: 'notify', run: (account: string) => `told ${account}` })

const transfer = defineJob({
  name: 'transfer',
  transactional: true,
  maxAttempts: 2,
  backoff: { type: 'fixed', initialDelay: '10ms' },
  async run({ from, to, amount }: { from: string; to: string; amount: number }, { tx, attempt, enqueue }) {
    // Others wait from here on: look things up and call services before.
    const db = await tx<Database.Database>()
    const move = db.prepare('UPDATE account SET balance = balance + ? WHERE name = ?')
    move.run(-amount, from)
    if (to === 'bob' && attempt === 1) throw new Error('the process stumbles half-way')
    move.run(amount, to)
    await enqueue(notify, to) // exists if and only if this commits, too
    return db.prepare('SELECT balance FROM account WHERE name = ?').pluck().get(to) as number
  },
})

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const file = join(folder, 'bank.db')
const db = new Database(file)
db.exec(`
  CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0));
  INSERT INTO account VALUES ('ann', 100), ('bob', 0), ('cid', 0)`)
const balances = () =>
  db.prepare('SELECT name, balance FROM account').raw().all().join(' ').replaceAll(',', ' ')

const mill = new Millrace({ store: `sqlite:${file}`, jobs: [transfer, notify] })
mill.on('retrying', ({ failure }) => console.log(`${failure.message}: ${balances()}`))
await mill.worker().start()

const first = await mill.enqueue(transfer, { from: 'ann', to: 'bob', amount: 30 })
console.log(`bob has ${await first.result()}: ${balances()}`)

const second = await mill.enqueue(transfer, { from: 'ann', to: 'cid', amount: 500 })
await second.result().catch((error: Error) => console.log(error.message.split(': ').slice(1).join(': ')))
console.log(`nothing has changed: ${balances()}`)

await mill.queue('default').drain()
const { jobs } = await mill.jobs({ state: 'completed', name: 'notify' })
console.log(jobs.map(({ result }) => result).join())
await mill.close()
db.close()
await rm(folder, { recursive: true })

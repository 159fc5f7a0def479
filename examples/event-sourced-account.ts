// An account as what happened to it: commands decide by its state, two read models follow, and one of them is rebuilt.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { defineAggregate, defineEvent, defineProjection, EventStore } from 'millrace/events'
import { z } from 'zod'

const Opened = defineEvent({ type: 'opened', data: z.object({ owner: z.string() }) })
const Deposited = defineEvent({ type: 'deposited', data: z.object({ amount: z.number().positive() }) })
const Withdrawn = defineEvent({ type: 'withdrawn', data: z.object({ amount: z.number().positive() }) })

const account = defineAggregate({
  name: 'account',
  events: [Opened, Deposited, Withdrawn],
  initial: { isOpen: false, balance: 0 },
  apply: {
    opened: (state) => ({ ...state, isOpen: true }),
    deposited: (state, { data }) => ({ ...state, balance: state.balance + data.amount }),
    withdrawn: (state, { data }) => ({ ...state, balance: state.balance - data.amount }),
  },
  snapshot: { every: 100 },
})

// What must be true at once is written in the transaction of the append: two accounts of one owner are refused.
const owners = defineProjection({
  name: 'owners',
  inline: true,
  events: [Opened],
  on: {
    opened: ({ stream, data }, { tx }) =>
      tx<Database.Database>().prepare('INSERT INTO owners VALUES (?, ?)').run(data.owner, stream),
  },
})

// What may come a moment later follows the log, in a table for each generation.
const balances = (sign: -1 | 1) =>
  defineProjection({
    name: 'balances',
    events: [Deposited, Withdrawn],
    create: ({ tx, table }) =>
      tx<Database.Database>().exec(`CREATE TABLE ${table} (account TEXT PRIMARY KEY, balance INTEGER)`),
    drop: ({ tx, table }) => tx<Database.Database>().exec(`DROP TABLE IF EXISTS ${table}`),
    on: {
      deposited: ({ stream, data }, { tx, table }) => add(tx(), table, stream, data.amount),
      withdrawn: ({ stream, data }, { tx, table }) => add(tx(), table, stream, sign * data.amount),
    },
  })

function add(db: Database.Database, table: string, stream: string, amount: number): void {
  db.prepare(
    `INSERT INTO ${table} VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET balance = balance + excluded.balance`,
  ).run(stream, amount)
}

const folder = await mkdtemp(join(tmpdir(), 'millrace-'))
const file = join(folder, 'bank.db')
const db = new Database(file)
db.exec('CREATE TABLE owners (owner TEXT PRIMARY KEY, account TEXT)')

function openStore(sign: -1 | 1) {
  return new EventStore({ log: `sqlite:${file}`, events: [account], projections: [owners, balances(sign)] })
}
const store = openStore(1) // a bug: it adds what is withdrawn
const worker = store.worker()
await worker.start()

async function open(id: string, owner: string): Promise<void> {
  await store.append(`account-${id}`, [Opened({ owner })], { expected: 'none' })
}

function withdraw(id: string, amount: number) {
  return store.execute(account, `account-${id}`, ({ isOpen, balance }) => {
    if (!isOpen) throw new Error('there is no such account')
    if (amount > balance) throw new Error(`${balance} left, ${amount} asked for`)
    return [Withdrawn({ amount })]
  })
}

async function show(): Promise<string> {
  const table = await store.table('balances')
  const rows = db.prepare(`SELECT account, balance FROM ${table} ORDER BY account`).raw().all()
  return `${table}: ${rows.map((row) => (row as unknown[]).join(' has ')).join(', ')}`
}

const say = (error: Error) => console.log(`refused: ${error.message}`)

await open('1', 'ann')
await open('2', 'bob')
await open('3', 'ann').catch(say)
await store.append('account-1', [Deposited({ amount: 100 })])
await store.append('account-2', [Deposited({ amount: 10 })])
const results = await Promise.allSettled([30, 30, 30, 30].map((amount) => withdraw('1', amount)))
console.log(
  `${results.filter(({ status }) => status === 'fulfilled').length} of 4 withdrawals of 30 from 100`,
)
await withdraw('2', 11).catch(say)

const { state, version } = await store.load(account, 'account-1')
console.log(`account-1 has ${state.balance} at version ${version}`)
const last = await store.append('account-2', [Deposited({ amount: 1 })])
await store.reached('balances', last.position)
console.log(await show())

// The next deploy has no such bug: it builds the table anew, from what happened, while the old one is read.
const repaired = openStore(-1)
const { generation } = await repaired.rebuild('balances', { keepOld: 0 })
console.log(`generation ${generation} took its place`)
console.log(await show())

await repaired.close()
await store.close()
db.close()
await rm(folder, { recursive: true })

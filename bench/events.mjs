// Millrace's side of the cases about the event store.
import { join } from 'node:path'
import { defineEvent, defineProjection, EventStore } from '../dist/events/index.js'
import { bursts, expectEqual, input, rate, warmup } from './workload.mjs'

const Placed = defineEvent({ type: 'placed' })

/** One after the other, each to a stream of its own. */
export async function appendEach({ jobs, ...place }) {
  const store = open(place)
  const one = (n) => store.append(`order-${n}`, [Placed(input(n))], { expected: 'none' })
  for (let n = 0; n < warmup(jobs); n++) await one(n)
  const speed = await rate(jobs, async () => {
    for (let n = 0; n < jobs; n++) await one(warmup(jobs) + n)
  })
  await store.close()
  return { rate: speed }
}

/** Bursts of concurrent appends, each to a stream of its own. */
export async function appendBursts({ jobs, ...place }) {
  const store = open(place)
  let n = 0
  const burst = (all) =>
    Promise.all(all.map((one) => store.append(`order-${n++}`, [Placed(one)], { expected: 'none' })))
  for (const all of bursts(warmup(jobs))) await burst(all)
  const speed = await rate(jobs, async () => {
    for (const all of bursts(jobs)) await burst(all)
  })
  await store.close()
  return { rate: speed }
}

/** A projection that writes one row for each event, from the first one on. */
export async function project({ jobs, ...place }) {
  const rows = defineProjection({
    name: 'rows',
    events: [Placed],
    create: ({ tx, table }) => write[place.engine].create(tx(), table),
    drop: ({ tx, table }) => write[place.engine].drop(tx(), table),
    on: { placed: (event, { tx, table }) => write[place.engine].add(tx(), table, event.stream, event.data) },
  })
  const store = open(place, [rows])
  let n = 0
  for (const all of bursts(jobs))
    await Promise.all(all.map((one) => store.append(`order-${n++ % 1000}`, [Placed(one)])))
  const speed = await rate(jobs, () => store.catchUp(rows))
  const { projections } = await store.stats()
  expectEqual('events unseen', projections.find(({ name }) => name === 'rows').behind, 0)
  await store.close()
  return { rate: speed }
}

function open({ engine, url, folder }, projections = []) {
  const log = engine === 'postgres' ? url : `sqlite:${join(folder, 'events.db')}`
  return new EventStore({ log, events: [Placed], projections })
}

const write = {
  postgres: {
    drop: (tx, table) => tx.query(`DROP TABLE IF EXISTS ${table}`),
    create: (tx, table) => tx.query(`CREATE TABLE ${table} (stream text NOT NULL, data text NOT NULL)`),
    add: (tx, table, stream, data) =>
      tx.query({
        name: `add_${table}`,
        text: `INSERT INTO ${table} VALUES ($1, $2)`,
        values: [stream, JSON.stringify(data)],
      }),
  },
  sqlite: {
    drop: (tx, table) => tx.exec(`DROP TABLE IF EXISTS ${table}`),
    create: (tx, table) => tx.exec(`CREATE TABLE ${table} (stream TEXT NOT NULL, data TEXT NOT NULL)`),
    add: (tx, table, stream, data) =>
      tx.prepare(`INSERT INTO ${table} VALUES (?, ?)`).run(stream, JSON.stringify(data)),
  },
}

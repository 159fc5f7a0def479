// Millrace's side of the cases about the outbox. Messages go to a publisher that takes them at once, so that what is
// measured is the relay and its database.
import { join } from 'node:path'
import { defineJob, Millrace } from '../dist/index.js'
import { Outbox } from '../dist/outbox/index.js'
import { stopwatch } from './latency.mjs'
import { expectEqual, input, inputs, rate, warmup } from './workload.mjs'

/** From the start of a relay until all that was written before has been handed on, and the database knows. */
export async function relay({ engine, url, folder, jobs }) {
  const { outbox, write, relaying, close } = await open({ engine, url, folder })
  const early = warmup(jobs)
  await write(early)
  await relaying(early, 'poll').all()
  await write(jobs)
  const speed = await rate(jobs, () => relaying(jobs, 'poll').all())
  expectEqual('rows left', (await outbox.stats()).waiting.message, 0)
  await close()
  return { rate: speed }
}

/** From the first write until the last of them has been handed on, by a relay that runs meanwhile. */
export async function writeAndRelay({ url, jobs, source }) {
  const { write, relaying, close } = await open({ engine: 'postgres', url })
  const early = warmup(jobs)
  const { ready, all } = relaying(early + jobs, source)
  await ready
  await write(early)
  const speed = await rate(jobs, async () => {
    await write(jobs)
    await all()
  })
  await close()
  return { rate: speed }
}

async function open({ engine, url, folder }) {
  const place = await openPlace[engine]({ url, folder })
  const outbox = new Outbox({ store: place.store() })
  await outbox.open()
  const close = () => outbox.close().then(() => place.close())
  return { outbox, write, relaying, close }

  async function write(count) {
    const all = inputs(count)
    for (let n = 0; n < count; n += 500)
      await place.transact(async (tx) => {
        await outbox.publishMany(
          tx,
          all.slice(n, n + 500).map((payload) => ({ topic: 'orders', payload })),
        )
      })
  }

  /** `ready`: it is at work; `all` resolves when it has handed on so many, and stops it. */
  function relaying(count, source) {
    const relay = outbox.relay({ publisher, source, handleSignals: false })
    const done = new Promise((resolve) => {
      let left = count
      relay.on('relayed', (told) => {
        left -= told.count
        if (left === 0) resolve()
      })
    })
    const following = new Promise((resolve) => relay.on('following', resolve))
    const ready = relay.start().then(() => (source === 'replication' ? following : undefined))
    return { ready, all: () => done.then(() => relay.stop()) }
  }
}

const publisher = { name: 'nobody', publish: async (messages) => messages.map(() => 'published') }

/** From the begin of the transaction that writes a job until its handler starts; writer and relay as two processes. */
export async function latency({ url, how, ...options }) {
  const watch = stopwatch()
  const job = defineJob({ name: 'noop', run: () => watch.started() })
  const mill = new Millrace({ store: 'memory:', jobs: [job] })
  await mill.worker().start()
  const place = await openPlace.postgres({ url })
  const writer = new Outbox({ store: place.store() })
  await writer.open()
  const outbox = new Outbox({ store: place.store({ listen: how === 'notify' }) })
  const relay = outbox.relay({ to: mill, source: how === 'replication' ? how : 'poll', handleSignals: false })
  const following = new Promise((resolve) => relay.on('following', resolve))
  await relay.start()
  if (how === 'replication') await following
  const answer = await watch.sample(options, (n) => place.transact((tx) => writer.enqueue(tx, job, input(n))))
  await relay.stop()
  await Promise.all([outbox.close(), writer.close(), mill.close()])
  await place.close()
  return answer
}

const openPlace = {
  async postgres({ url }) {
    const { default: pg } = await import('pg')
    const { postgresOutbox } = await import('../dist/outbox/index.js')
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    return {
      store: (options) => postgresOutbox({ url, ...options }),
      close: () => client.end(),
      async transact(work) {
        await client.query('BEGIN')
        await work(client)
        await client.query('COMMIT')
      },
    }
  },

  async sqlite({ folder }) {
    const { default: Database } = await import('better-sqlite3')
    const { sqliteOutbox } = await import('../dist/outbox/index.js')
    const file = join(folder, 'app.db')
    const store = sqliteOutbox({ file })
    await store.open()
    await store.close()
    const db = new Database(file)
    return {
      store: () => sqliteOutbox({ file }),
      close: async () => db.close(),
      async transact(work) {
        db.exec('BEGIN IMMEDIATE')
        await work(db)
        db.exec('COMMIT')
      },
    }
  },
}

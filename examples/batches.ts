// One call for many jobs: rows that arrive one by one are inserted together, and each gets its own answer.
import Database from 'better-sqlite3'
import { defineBatchJob, Millrace } from 'millrace'

const db = new Database(':memory:')
db.exec('CREATE TABLE readings (sensor TEXT NOT NULL, celsius REAL NOT NULL CHECK (celsius >= -273.15))')
const insert = db.prepare('INSERT INTO readings (sensor, celsius) VALUES (?, ?)')

interface Reading {
  readonly sensor: string
  readonly celsius: number
}

/** All in one transaction; a row that is refused leaves the others alone. */
const insertAll = db.transaction((readings: Reading[]) =>
  readings.map(({ sensor, celsius }): number | Error => {
    try {
      return Number(insert.run(sensor, celsius).lastInsertRowid)
    } catch (error) {
      return error as Error // fails this job, by its own attempts
    }
  }),
)

const store = defineBatchJob({
  name: 'store-reading',
  maxAttempts: 2,
  backoff: { type: 'fixed', initialDelay: '20ms', jitter: 'none' },
  batch: { size: 50, wait: '100ms' }, // starts with 50 readings, or 100 ms after the first
  run(readings: Reading[], { jobs }) {
    console.log(`one transaction for ${readings.length}, attempt ${jobs[0]?.attempt}`)
    return insertAll(readings)
  },
})

const mill = new Millrace({ store: 'memory:', jobs: [store] })
const readings = Array.from({ length: 120 }, (_, i) => ({ sensor: `s${i % 7}`, celsius: i }))
const jobs = await mill.enqueueMany(store, readings)
const broken = await mill.enqueue(store, { sensor: 's0', celsius: -999 }, { id: 'broken' })
await mill.worker({ concurrency: 1 }).start()

console.log(`reading 120 is row ${await jobs[119]?.result()}`) // a number, by the type of the handler
await broken.result().catch((error: Error) => console.log(error.message))

const { completed, dead } = (await mill.stats()).states
console.log(`${completed} completed, ${dead} dead`)
console.log(`${db.prepare('SELECT count(*) FROM readings').pluck().get()} rows`)
await mill.close()

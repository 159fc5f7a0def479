// Every case, in the order of the table. A case is data:
//
//   engine, name   what it is called; --engine and --case choose by them; a name may be a function of jobs
//   jobs           how many; --jobs replaces it, at most with `mostJobs` where there is one
//   seconds        how long, for what runs for a time; --seconds replaces it
//   millrace       { module, measure, options, flags, from, keep } for measure.mjs, Millrace's side
//   peer           the same for the other side; left out where Millrace is shown alone or where `figures`
//                  take both values from one measurement
//   peerName       how the table calls the other side
//   prepare        measurements that make what both sides start from, once before the rounds; see `keep`
//   rounds         the most rounds that make sense, for what does not vary
//   server         'postgres': each measurement gets the URL of a database of its own, and runs on a Node that the
//                  peers there can use; 'postgres-logical' is one with wal_level = logical; 'redis': the URL of
//                  a server of its own
//   figures        one row of the table for each: { value, peerValue, label, unit, bar }
//
// A new engine adds a file like sqlite.mjs; a new row is one more object in it.
import { events } from './events.mjs'
import { install } from './install.mjs'
import { memory } from './memory.mjs'
import { outbox } from './outbox.mjs'
import { postgres } from './postgres.mjs'
import { redis } from './redis.mjs'
import { sqlite } from './sqlite.mjs'

const cases = [...sqlite, ...memory, ...postgres, ...redis, ...outbox, ...events, ...install]
export const engines = [...new Set(cases.map((one) => one.engine))]

/** The cases that the command line asks for, with their number of jobs and their time. */
export function choose({ engine = [], named = [], jobs, seconds }) {
  return cases
    .map((one) => withJobs(one, Math.min(jobs ?? one.jobs, one.mostJobs ?? Number.POSITIVE_INFINITY)))
    .map((one) => ({ ...one, seconds: one.seconds === undefined ? undefined : (seconds ?? one.seconds) }))
    .filter((one) => engine.length === 0 || engine.includes(one.engine))
    .filter((one) => named.length === 0 || named.some((text) => titleOf(one).includes(text)))
}

function withJobs(one, jobs) {
  return { ...one, jobs, name: typeof one.name === 'function' ? one.name(jobs) : one.name }
}

export function titleOf({ name, peerName }) {
  return peerName === undefined ? name : `${name} / ${peerName}`
}

// What every contender gets: the same input, the same number of slots, the same settings of SQLite.

export const slots = 100

/** About 60 bytes of JSON. */
export const input = (n) => ({ to: 'someone@example.com', template: 'welcome', n })
export const inputs = (count) => Array.from({ length: count }, (_, n) => input(n))

/** Exactly 200 bytes of JSON, no two alike, and little to compress. */
function payload(n) {
  let text = ''
  for (let i = 1; text.length < 173; i++) text += ((n + i) * 2654435761 + i * 40503).toString(36)
  return { n: String(n).padStart(9, '0'), text: text.slice(0, 173) }
}
export const payloads = (count) => Array.from({ length: count }, (_, n) => payload(n))

/** Jobs that run before the clock starts, so that both sides are measured as compiled code. */
export const warmup = (jobs) => Math.min(5_000, Math.ceil(jobs / 5))

/** Jobs that one burst of concurrent enqueues adds. */
export const burst = 500
/** The inputs of `count` jobs, burst by burst. */
export function* bursts(count) {
  const all = inputs(count)
  for (let n = 0; n < count; n += burst) yield all.slice(n, n + burst)
}

/** Runs `work` and returns how many jobs per second that was. */
export async function rate(jobs, work) {
  const started = performance.now()
  await work()
  return jobs / ((performance.now() - started) / 1000)
}

/** The settings that Millrace gives its own connection; see src/databases/sqlite/connection.ts. */
export const pragmas = {
  journal_mode: 'wal',
  cache_size: -65536,
  temp_store: 'memory',
  wal_autocheckpoint: 4000,
}

/** Gives a peer's connection the same, so that only the design of the queue differs. */
export function tune(db, synchronous) {
  for (const [name, value] of Object.entries(pragmas)) db.pragma(`${name} = ${value}`)
  db.pragma(`synchronous = ${synchronous}`)
  const set = db.pragma('synchronous', { simple: true })
  if (set !== { normal: 1, full: 2 }[synchronous])
    throw new Error(`synchronous is ${set}, not ${synchronous}`)
}

/** A measurement that lost jobs measures nothing. */
export function expectEqual(what, actual, expected) {
  if (actual !== expected) throw new Error(`${what}: ${actual}, expected ${expected}`)
}

/**
 * Nobody is killed: sixteen connections append at the same time, most of them in transactions that stay open for a while, and
 * four processes read all of it meanwhile, two that follow and two that project in parts.
 */
import { type EventsArena, eventsFault, sleep } from '../arena.js'
import { describeLags, lagsOf } from '../lags.js'

const events = 100_000
const leastEvents = 1_000
const processes = 4

export const readers = eventsFault('readers', 0, async (arena) => {
  const goal = Math.max(leastEvents, Math.round(events * arena.options.scale))
  const isFile = arena.place.book.engine === 'sqlite'
  const model = { tells: true, batch: 200, leaseMs: 10_000 }
  const followers = [arena.launchFollower(), arena.launchFollower()]
  const projectors = [
    arena.launchProjector({ ...model, models: ['totals'] }),
    arena.launchProjector({ ...model, models: ['mirror'] }),
  ]
  await Promise.all([...followers, ...projectors].map((member) => member.ready))
  const connections = isFile ? 1 : 16 / processes
  const pace = { connections, holdMs: isFile ? 2 : 20, pauseMs: 0 }
  const writers = Array.from({ length: processes }, () => arena.launchWriter(pace))
  await Promise.all(writers.map((writer) => writer.ready))
  const from = Date.now()
  await reach(arena, goal)
  const seconds = (Date.now() - from) / 1000
  return arena.judge({
    injected: writers.length * connections,
    writers,
    followers,
    // Projections may be slower than sixteen writers.
    drainLimitMs: 120_000,
    note: ({ events, kept }) => {
      const rate = `${kept.length} events in ${seconds.toFixed(1)} s (${Math.round(kept.length / seconds)}/s)`
      const readers = [...followers, ...projectors].map(({ name }) => name)
      return `${rate} by ${writers.length * connections} writers; ms behind, p50/p99/max: ${describeLags(lagsOf(events, kept, readers))}`
    },
  })
})

async function reach(arena: EventsArena, goal: number): Promise<void> {
  for (let count = 0, before = -1, since = Date.now(); count < goal; ) {
    await sleep(Math.min(1_000, goal / 10))
    count = await arena.book.count()
    arena.options.progress(`${count} of ${goal} events`)
    if (count > before) since = Date.now()
    else if (Date.now() - since > stuckMs)
      return arena.accuse('I13', `nobody appends any more after ${count} events`)
    before = count
  }
}

const stuckMs = 30_000

/**
 * kill -9 of whoever rebuilds, by its own hand in each window from the new table to the end of the old one, or from outside.
 * The next one goes on; workers and readers go on all the time.
 */
import type { Armed } from '../../fail-points.js'
import { type EventsArena, eventsFault, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import type { EventsFailPoint } from '../fail-points.js'
import { eventsSettings } from '../settings.js'
import { diesSoon, inTwoSlots } from '../slots.js'

export const rebuildKills = [
  killAt('rebuild-creating', { creating: 0.5 }),
  killAt('rebuild-begun', { begun: 0.5 }),
  killAt('rebuild-building', { handling: 0.003, handled: 0.05, advanced: 0.05, committed: 0.05 }),
  killAt('rebuild-swapping', { swapping: 0.5 }),
  killAt('rebuild-swap', { 'swap-sent': 0.5 }),
  killAt('rebuild-swapped', { swapped: 0.5 }),
  killAt('rebuild-dropping', { dropping: 0.5 }),
  killAt('rebuild-dropped', { dropped: 0.5 }),
  eventsFault('rebuild-anywhere', 1, async (arena) =>
    killRebuilders(arena, async () => {
      const victim = arena.launchRebuilder()
      await victim.ready
      await sleep(arena.random.between(0, 3_000))
      await arena.kill(victim)
    }),
  ),
]

function killAt(name: string, armed: Armed<EventsFailPoint>) {
  return eventsFault(name, 1, async (arena) =>
    killRebuilders(arena, () => diesSoon(arena, arena.launchRebuilder({ armed }), patienceMs)),
  )
}

/** One of two builds at a time, all there is. */
const patienceMs = 30_000
/** There is less of it then. */
const writer = { pauseMs: 250 }

async function killRebuilders(arena: EventsArena, killOne: () => Promise<void>) {
  const { writers, followers } = await startCrew(arena, { projectors: 2, writer })
  await inTwoSlots(arena, killOne)
  await finish(arena)
  const generation = await liveGeneration(arena)
  const note = () => `${generation - 1} rebuilds done`
  return arena.judge({ injected: arena.kills, writers, followers, note, mayComplain: true })
}

/** What was begun comes to its end, and what was left behind goes with the next one. */
async function finish(arena: EventsArena): Promise<void> {
  const last = arena.launchRebuilder({ times: 2 })
  const done = await Promise.race([last.exit, sleep(finishMs)])
  if (done === undefined) arena.accuse('I13', `no rebuild came to its end within ${finishMs} ms`)
}

const finishMs = eventsSettings.drainLimitMs + 10_000

async function liveGeneration(arena: EventsArena): Promise<number> {
  return (await arena.projections()).find(({ name }) => name === 'totals')?.live ?? 0
}

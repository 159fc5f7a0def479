/** kill -9 of a worker, by its own hand in each window of its work, or from outside at moments that nobody chose. */
import type { Armed } from '../../fail-points.js'
import { eventsFault, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import type { EventsFailPoint } from '../fail-points.js'
import type { ProjectorConfig } from '../projector-process.js'
import { diesSoon, inTwoSlots } from '../slots.js'

export const workerKills = [
  killAt('taken', { taken: 0.9 }),
  killAt('handling', { handling: 0.02 }),
  killAt('handled', { handled: 0.1 }),
  killAt('advanced', { advanced: 0.1 }),
  killAt('commit-sent', { 'commit-sent': 0.1 }),
  killAt('committed', { committed: 0.1 }),
  killAt('renewing', { renewing: 0.2 }),
  killAt('renewed', { renewed: 0.2 }),
  killAnywhere('anywhere'),
]

/** The same of one that reacts. Its jobs go elsewhere, so that an event whose jobs are there may come again. */
export const reactionKills = [
  killAt('reacting', { handling: 0.05 }, { models: [], reacts: true }),
  killAt('reacted', { handled: 0.2 }, { models: [], reacts: true }),
  killAt('reaction-kept', { committed: 0.2 }, { models: [], reacts: true }),
]

/** One that nobody kills is there to take over. It leaves most of the parts to others while these live. */
const standby = { concurrency: 1 }

function killAt(name: string, armed: Armed<EventsFailPoint>, projector: Partial<ProjectorConfig> = {}) {
  return eventsFault(name, 1, async (arena) => {
    const { writers, followers } = await startCrew(arena, { projector: { ...projector, ...standby } })
    await inTwoSlots(arena, async () => diesSoon(arena, await arena.startProjector({ ...projector, armed })))
    const reacts = projector.reacts === true
    return arena.judge({ injected: arena.kills, writers, followers, reacts })
  })
}

/** How many die on their way to work. */
const early = 1 / 3

function killAnywhere(name: string) {
  return eventsFault(name, 1, async (arena) => {
    const projector = { reacts: true }
    const { writers, followers } = await startCrew(arena, { projector: { ...projector, ...standby } })
    await inTwoSlots(arena, async () => {
      const victim = arena.launchProjector(projector)
      if (arena.random.chance(early)) await sleep(arena.random.between(50, 900))
      else {
        await victim.ready
        await sleep(arena.random.between(0, 600))
      }
      await arena.kill(victim)
    })
    return arena.judge({ injected: arena.kills, writers, followers, reacts: true })
  })
}

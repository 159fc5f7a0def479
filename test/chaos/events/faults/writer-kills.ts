/** kill -9 of a process that appends, before it asks for its commit, while that is on its way, and after. */
import { eventsFault } from '../arena.js'
import { startCrew } from '../crew.js'
import type { EventsFailPoint } from '../fail-points.js'
import { diesSoon, inTwoSlots } from '../slots.js'

const points: readonly EventsFailPoint[] = ['appended', 'commit-sent', 'committed']

export const writerKills = eventsFault('writer', 2, async (arena) => {
  const { writers, followers } = await startCrew(arena, { writers: 1 })
  let turn = 0
  await inTwoSlots(arena, async () => {
    const point = points[turn++ % points.length] as EventsFailPoint
    await diesSoon(arena, arena.launchWriter({ armed: { [point]: 0.05 } }))
  })
  return arena.judge({ injected: arena.kills, writers, followers })
})

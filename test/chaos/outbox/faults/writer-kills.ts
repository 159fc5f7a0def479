/** kill -9 of a process that writes, before it asks for its commit, while that is on its way, and after. */
import { settings } from '../../settings.js'
import { outboxFault, sleep } from '../arena.js'
import { startCrew } from '../crew.js'
import type { OutboxFailPoint } from '../fail-points.js'
import { inTwoSlots } from './relay-kills.js'

const points: readonly OutboxFailPoint[] = ['written', 'commit-sent', 'committed']

export const writerKills = outboxFault('writer', 2, async (arena) => {
  const { writers } = await startCrew(arena, { writers: 1 })
  let turn = 0
  await inTwoSlots(arena, async () => {
    const point = points[turn++ % points.length] as OutboxFailPoint
    const victim = arena.launchWriter({ armed: { [point]: 0.1 } })
    const died = await Promise.race([victim.exit, sleep(settings.patienceMs)])
    await (died === undefined ? arena.kill(victim) : arena.bury(victim))
  })
  return arena.judge(writers, { injected: arena.kills })
})

/** kill -9 of a worker by its own hand, at each step of a job's life. */
import { type Arena, sleep } from '../arena.js'
import type { Armed } from '../fail-points.js'
import { fault } from '../fault.js'
import type { Work } from '../jobs.js'
import type { Random } from '../random.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { mixedWork } from './load.js'

export const killsAtFailPoints = [
  killAt('claimed', [{ claimed: 0.15 }]),
  killAt('mid-handler', [{ 'mid-handler': 0.05 }]),
  killAt('handler-done', [{ 'handler-done': 0.05 }]),
  killAt('settle-sent', [{ 'settle-sent': 0.05 }]),
  killAt('retry', [{ 'retry-before': 0.1 }, { 'retry-after': 0.1 }], (random) =>
    random.chance(0.5) ? { fails: 2 } : mixedWork(random),
  ),
  killAt('dead-move', [{ 'dead-before': 0.1 }, { 'dead-after': 0.1 }], (random) =>
    random.chance(0.4) ? { doomed: true } : mixedWork(random),
  ),
  killAt('renewal', [{ 'renewal-before': 0.3 }, { 'renewal-after': 0.3 }]),
  // Somebody has to be lost before somebody can be rescued.
  killAt('rescue', [
    { 'rescue-before': 0.7, 'mid-handler': 0.01 },
    { 'rescue-after': 0.7, 'mid-handler': 0.01 },
  ]),
  killAt('mid-commit', [{ 'mid-commit': 0.1 }]),
]

/** A worker that nobody kills is there to rescue. */
function killAt(name: string, arms: readonly Armed[], makeWork: (random: Random) => Work = mixedWork) {
  return fault(name, 1, async (arena): Promise<Row> => {
    await arena.startWorker()
    const stopFeeding = arena.feed(() => makeWork(arena.random))
    await killArmed(arena, arms)
    await stopFeeding()
    return arena.judge({ injected: arena.kills })
  })
}

/** Two armed workers at a time die and are replaced. */
export async function killArmed(arena: Arena, arms: readonly Armed[]): Promise<void> {
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) await killOne(arena, arms[left % arms.length] as Armed)
  }
  await Promise.all([slot(), slot()])
}

async function killOne(arena: Arena, armed: Armed): Promise<void> {
  const member = await arena.startWorker({ armed })
  const died = await Promise.race([member.exit, sleep(settings.patienceMs)])
  await (died === undefined ? arena.kill(member) : arena.bury(member))
}

/** kill -9 of a worker by its own hand, before and after it writes what a step or a compensation did. */
import { type Arena, repeat, sleep } from '../arena.js'
import { checkEffects } from '../effects.js'
import type { Armed } from '../fail-points.js'
import { fault } from '../fault.js'
import { booking, bookingSteps, stepped } from '../jobs.js'
import { killArmed } from './kill-at-fail-points.js'

export const killsAtSteps = [
  killAt('step-write', [{ 'step-before': 0.04 }, { 'step-after': 0.04 }], async (arena) => {
    await arena.enqueueJob(stepped, { sleep: arena.random.integer(1, 60) })
  }),
  killAt('compensation', [{ 'undo-before': 0.08 }, { 'undo-after': 0.08 }], async (arena) => {
    const failsAt = arena.random.pick([undefined, ...bookingSteps])
    const id = await arena.enqueueJob(booking, {
      ...(failsAt !== undefined && { failsAt }),
      undoFails: arena.random.integer(0, 1),
    })
    if (id !== undefined) sagas.add(id)
  }),
]

const sagas = new Set<string>()

function killAt(name: string, arms: readonly Armed[], add: (arena: Arena) => Promise<void>) {
  return fault(name, 1, async (arena) => {
    sagas.clear()
    await arena.startWorker()
    const stopFeeding = repeat(async () => {
      const { pending, blocked } = await arena.counts()
      for (let n = pending + blocked; n < 40; n++) await add(arena)
      await sleep(15)
    })
    await killArmed(arena, arms)
    await stopFeeding()
    return arena.judge({
      injected: arena.kills,
      inspect: ({ events, jobs }) => {
        const verdict = checkEffects(events, jobs, (id) => sagas.has(id))
        for (const { invariant, text } of verdict.violations) arena.accuse(invariant, text)
        return `${verdict.effects} effects, ${verdict.repeated} repeated under their key`
      },
    })
  })
}

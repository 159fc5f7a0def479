/** kill -9 of a worker that is shutting down after SIGTERM. */
import { sleep } from '../arena.js'
import { fault } from '../fault.js'
import { settings } from '../settings.js'
import { mixedWork } from './load.js'

export const killDrain = fault('drain', 1, async (arena) => {
  await arena.startWorker()
  const stopFeeding = arena.feed(() =>
    arena.random.chance(0.5) ? { sleep: arena.random.integer(20, 80) } : mixedWork(arena.random),
  )
  let left = arena.options.kills
  const slot = async () => {
    while (left > 0) {
      const victim = await arena.startWorker({ armed: { drain: 0.5 } })
      await sleep(arena.random.between(10, 120))
      victim.signal('SIGTERM')
      // Those that luck lets live end by themselves, and another has to die instead.
      await arena.ended(victim, settings.graceMs)
      if ((await victim.exit).signal !== 'SIGKILL') continue
      left--
      await arena.bury(victim)
    }
  }
  await Promise.all([slot(), slot()])
  await stopFeeding()
  return arena.judge({ injected: arena.kills })
})

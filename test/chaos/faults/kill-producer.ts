/** kill -9 of a process that enqueues: what it was told is stored is stored; what it was not told may be. */
import { sleep } from '../arena.js'
import { fault } from '../fault.js'

export const killProducer = fault('producer', 1, async (arena) => {
  await arena.startWorker()
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) {
      const victim = arena.launchProducer({ jobs: Number.MAX_SAFE_INTEGER, pauseMs: 2 })
      await victim.ready
      await sleep(arena.random.between(0, 100))
      await arena.kill(victim)
    }
  }
  await Promise.all([slot(), slot()])
  return arena.judge({ injected: arena.kills })
})

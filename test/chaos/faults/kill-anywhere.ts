/** kill -9 from outside, at moments that nobody chose: start-up, claim, commit, shutdown. */
import { sleep } from '../arena.js'
import { engines } from '../engine.js'
import { fault } from '../fault.js'
import { mixedWork } from './load.js'

export const killAnywhere = fault('anywhere', 2, async (arena) => {
  await arena.startWorker()
  const stopFeeding = arena.feed(() => mixedWork(arena.random))
  const { openMs } = engines[arena.options.engine]
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) {
      const victim = arena.launchWorker()
      await sleep(arena.random.between(50, 500 + 2 * openMs))
      await arena.kill(victim)
    }
  }
  await Promise.all([slot(), slot()])
  await stopFeeding()
  return arena.judge({ injected: arena.kills })
})

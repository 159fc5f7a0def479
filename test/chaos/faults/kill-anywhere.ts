/** kill -9 from outside, at moments that nobody chose: start-up, claim, commit, shutdown. */
import { type Arena, sleep } from '../arena.js'
import { engines } from '../engine.js'
import { fault } from '../fault.js'
import type { Member } from '../fleet.js'
import { mixedWork } from './load.js'

/** How many die on their way to work. How long that way is depends on the machine, so the others die after it. */
const early = 1 / 3
/** With so many kills it is no bad luck when none of them hit a worker with jobs. */
const enough = 8

export const killAnywhere = fault('anywhere', 2, async (arena) => {
  await arena.startWorker()
  const stopFeeding = arena.feed(() => mixedWork(arena.random))
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) {
      const victim = arena.launchWorker()
      await someMoment(arena, victim)
      await arena.kill(victim)
    }
  }
  await Promise.all([slot(), slot()])
  await stopFeeding()
  const hits = arena.losses.filter(({ held }) => held.length > 0).length
  if (hits === 0 && arena.kills >= enough) arena.accuse('harness', 'no kill hit a worker that held jobs')
  return arena.judge({ injected: arena.kills, note: `${hits} kills hit a worker that held jobs` })
})

async function someMoment({ options, random }: Arena, victim: Member): Promise<void> {
  const { openMs } = engines[options.engine]
  if (random.chance(early)) return sleep(random.between(50, 500 + 2 * openMs))
  await victim.ready
  await sleep(random.between(0, 500))
}

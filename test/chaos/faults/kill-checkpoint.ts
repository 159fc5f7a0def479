/** kill -9 of a process in the middle of a checkpoint, while others write. */
import type { Arena } from '../arena.js'
import { fault } from '../fault.js'
import type { Row } from '../row.js'

export const killCheckpoint = fault('checkpoint', 1, attack, ['sqlite'])

async function attack(arena: Arena): Promise<Row> {
  await Promise.all([arena.startWorker(), arena.startWorker()])
  const ballast = 'x'.repeat(4_000)
  const stopFeeding = arena.feed(() => ({ ballast }), { level: 200 })
  let left = arena.options.kills
  const slot = async () => {
    while (left-- > 0) {
      const victim = arena.fleet.start('checkpoint-process', (name) => arena.childConfig(name), {
        doomed: true,
      })
      await arena.bury(victim)
    }
  }
  await Promise.all([slot(), slot()])
  await stopFeeding()
  return arena.judge({ injected: arena.kills })
}

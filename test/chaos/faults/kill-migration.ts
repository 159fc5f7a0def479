/** kill -9 while a fresh store is opened and migrated, with many processes starting at once. */
import { join } from 'node:path'
import { Arena, type ArenaOptions } from '../arena.js'
import type { Fault } from '../fault.js'
import { mergeRows, type Row } from '../row.js'

const victimsPerRound = 4
const survivorsPerRound = 2

export const killMigration: Fault = {
  name: 'migration',
  weight: 1,
  async run(options) {
    const rows: Row[] = []
    for (let left = options.kills; left > 0; left -= victimsPerRound) {
      options.progress(`${options.kills - left} kills`)
      const folder = join(options.folder, `round-${rows.length}`)
      const random = options.random.fork(String(rows.length))
      rows.push(await round({ ...options, folder, random, kills: Math.min(left, victimsPerRound) }))
    }
    return { ...mergeRows(rows), seed: options.random.seed }
  },
}

async function round(options: ArenaOptions): Promise<Row> {
  // The harness opens the store last: the victims must find none.
  const arena = new Arena(options)
  try {
    const start = (armed: boolean) =>
      arena.fleet.start('opener-process', (name) => ({ ...arena.childConfig(name), armed }), {
        doomed: armed,
      })
    const victims = Array.from({ length: options.kills }, () => start(true))
    const survivors = Array.from({ length: survivorsPerRound }, () => start(false))
    const exits = await Promise.all([...victims, ...survivors].map((member) => member.exit))
    arena.kills = exits.filter(({ signal }) => signal === 'SIGKILL').length
    if (arena.kills < options.kills) arena.accuse('harness', 'a victim survived')
    return await arena.judge({ injected: arena.kills })
  } finally {
    await arena.close()
  }
}

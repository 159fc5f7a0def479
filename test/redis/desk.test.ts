/** Many want to write at the desk: whoever is slower comes to its turn too. */
import { expect, test } from 'vitest'
import { configure } from '../../src/stores/ledger/configure.js'
import type { Connection } from '../../src/stores/redis/connection.js'
import { Desk } from '../../src/stores/redis/desk.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import type { Shard } from '../../src/stores/redis/shard.js'
import { freshPrefix, open } from './redis.js'

test('others that write whenever they can do so before each of its writes', async () => {
  const prefix = freshPrefix()
  const quick = new Desk(await open({ prefix }), 'quick', undefined)
  let writes = 0
  const connection = await open({ prefix })
  const run: Shard['run'] = async (script, args, effort) => {
    if (script === scripts.write) {
      writes++
      await Promise.race([pause(quick, `quick-${writes}`), wait(20)])
    }
    return connection.run(script, args, effort)
  }
  await pause(new Desk({ run } as Connection, 'slow', undefined), 'slow')
  expect(writes).toBeLessThan(10)
  await pause(quick, 'afterwards')
})

function pause(desk: Desk, queue: string): Promise<unknown> {
  return desk.work((tables, now) => configure(tables, { queue, paused: true }, now))
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

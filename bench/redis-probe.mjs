// What a measurement asks the server of Redis about itself, over a connection of its own.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'

/** How many bytes more the server has in use after `work`, for each of its jobs. `work` must close its connections. */
export async function memoryOf(url, jobs, work) {
  const redis = new Redis(url)
  const before = await settledMemory(redis)
  await work()
  const after = await settledMemory(redis)
  redis.disconnect()
  return { bytes: (after - before) / jobs }
}

/** When buffers of clients are gone and no table is being resized any more. */
async function settledMemory(redis) {
  let last = Number.NaN
  for (let same = 0, n = 0; n < 100; n++) {
    await sleep(200)
    const used = Number(await told(redis, 'memory', 'used_memory'))
    const alone = (await told(redis, 'clients', 'connected_clients')) === '1'
    same = alone && Math.abs(used - last) < 4096 ? same + 1 : 0
    last = used
    if (same === 5) return used
  }
  throw new Error('the memory of the server did not come to rest')
}

/** Commands that the server ran in each second, those inside scripts included, while everybody is idle. */
export async function idleCommands(url, seconds) {
  const redis = new Redis(url)
  await redis.ping()
  await sleep(idleAfter)
  const before = Number(await told(redis, 'stats', 'total_commands_processed'))
  const started = performance.now()
  await sleep(seconds * 1000)
  const after = Number(await told(redis, 'stats', 'total_commands_processed'))
  const passed = (performance.now() - started) / 1000
  redis.disconnect()
  // The first of our two questions came after its own answer.
  return { commands: (after - before - 1) / passed }
}

/** So long after the last job everybody waits as long as they ever do. */
const idleAfter = 10_000

async function told(redis, section, name) {
  const found = new RegExp(`^${name}:(\\S+)`, 'm').exec(await redis.info(section))
  if (found === null) throw new Error(`the server does not tell ${name}`)
  return found[1]
}

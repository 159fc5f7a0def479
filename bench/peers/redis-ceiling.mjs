// The practical limit of Redis through ioredis: the bare batched insert → claim → delete loop.
//
// It does: push the bodies of a batch with one command; take the next batch off with one script, which is claim and
// deletion in one. With `kept`, each job has an id by which users can look it up: a batch is a hash of bodies and a
// list of ids; one script deletes the batch that is done and moves the next to those that are claimed.
// It does not: run a handler, parse a payload, keep tokens or leases, know queues, priorities, attempts or workers,
// count anything, wake anybody, use a second connection. A crash would lose what it holds, or, with `kept`, track
// of it.
//
// Not a proof: several batches on their way at once would overlap the work of the server with that of the client.
import { Redis } from 'ioredis'
import { batch } from '../redis-tuning.mjs'
import { expectEqual, inputs, rate, warmup } from '../workload.mjs'

export async function processJobs({ url, jobs, enqueueInside = false, kept = false }) {
  const loop = (kept ? openKept : open)(url)
  const early = warmup(jobs)
  await loop.insert(inputs(early))
  expectEqual('jobs run', await loop.process(), early)
  const all = inputs(jobs)
  if (!enqueueInside) await loop.insert(all)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await loop.insert(all)
    expectEqual('jobs run', await loop.process(), jobs)
  })
  await loop.close()
  return { rate: speed }
}

function open(url) {
  const redis = new Redis(url)
  redis.defineCommand('take', {
    numberOfKeys: 1,
    lua: `return redis.call('LPOP', KEYS[1], ARGV[1]) or {}`,
  })

  async function insert(all) {
    for (const some of batches(all)) await redis.rpush('waiting', ...some.map((one) => JSON.stringify(one)))
  }

  async function process() {
    let count = 0
    let held = []
    do {
      held = await redis.take('waiting', batch)
      count += held.length
    } while (held.length > 0)
    return count
  }

  return { insert, process, close: () => close(redis) }
}

function openKept(url) {
  const redis = new Redis(url)
  redis.defineCommand('add', {
    numberOfKeys: 2,
    lua: `
      local ids = {}
      for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
      redis.call('HSET', KEYS[1], unpack(ARGV))
      redis.call('RPUSH', KEYS[2], unpack(ids))`,
  })
  redis.defineCommand('exchange', {
    numberOfKeys: 3,
    lua: `
      local bodies, waiting, claimed = KEYS[1], KEYS[2], KEYS[3]
      if #ARGV > 1 then
        redis.call('HDEL', bodies, unpack(ARGV, 2))
        redis.call('SREM', claimed, unpack(ARGV, 2))
      end
      local ids = redis.call('LPOP', waiting, ARGV[1])
      if not ids then return {{}, {}} end
      redis.call('SADD', claimed, unpack(ids))
      return {ids, redis.call('HMGET', bodies, unpack(ids))}`,
  })

  async function insert(all) {
    for (const some of batches(all)) {
      await redis.add('bodies', 'waiting', ...some.flatMap((one) => [nextId(), JSON.stringify(one)]))
    }
  }

  async function process() {
    let count = 0
    let held = []
    do {
      const [ids] = await redis.exchange('bodies', 'waiting', 'claimed', batch, ...held)
      held = ids
      count += held.length
    } while (held.length > 0)
    return count
  }

  return { insert, process, close: () => close(redis) }
}

function* batches(all) {
  for (let n = 0; n < all.length; n += batch) yield all.slice(n, n + batch)
}

async function close(redis) {
  expectEqual('keys left', await redis.dbsize(), 0)
  redis.disconnect()
}

let ids = 0
/** Growing, like version 7. */
function nextId() {
  const n = (ids++).toString(16).padStart(12, '0')
  return `019a8000-${n.slice(0, 4)}-7${n.slice(4, 7)}-8${n.slice(7, 10)}-${n.slice(10)}abcdefabcd`
}

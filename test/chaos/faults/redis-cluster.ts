/** A cluster loses, changes and moves what has the jobs: other nodes go on, and so do the processes. */
import { startProxy } from '../../servers/proxy.js'
import type { RedisServer } from '../../servers/redis.js'
import { viewOf } from '../../servers/redis-cluster-view.js'
import { ask } from '../../servers/redis-process.js'
import { type Arena, sleep } from '../arena.js'
import type { Period } from '../checker.js'
import { type Fault, fault } from '../fault.js'
import { portsOf, redisPlace, rootsOf } from '../redis-engine.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { roundsOf, startCrew } from './crew.js'

/** How long replicas are cut off before a master dies, and how long after it answers are read. */
const behindMs = { least: 100, most: 500 } as const
const readMs = 1_000

export const clusterFaults: readonly Fault[] = [
  fault('master-kill', 2, (arena) => killMasters(arena, 1), ['redis-cluster']),
  fault('master-kill-async', 1, (arena) => killMasters(arena, undefined), ['redis-cluster']),
  fault('failover', 0, failover, ['redis-cluster']),
  fault('slot-move', 0, moveSlot, ['redis-cluster']),
  fault('script-flush-all', 0, flushAll, ['redis-cluster']),
  fault('node-black-hole', 0, blackHole, ['redis-cluster']),
]

/**
 * A master of some of the jobs, under load; its replica takes over, and it comes back as the replica of that one. Each second time
 * that replica has heard nothing for a while. With `wait` nothing is lost; without, what had not reached the replica is,
 * and is counted.
 */
async function killMasters(arena: Arena, wait: number | undefined): Promise<Row> {
  const place = redisPlace(arena.place)
  const { cluster } = arena
  const crew = await startCrew(arena, { ...place, ...(wait !== undefined && { wait }) })
  const forgotten: Period[] = []
  while (arena.kills < arena.options.kills) {
    await sleep(arena.random.between(300, 1_000))
    const root = arena.random.pick(rootsOf(place))
    const master = await cluster.masterOf(root)
    const replica = await cluster.replicaOf(master)
    const from = await allReplicated(root, master)
    const letGo = arena.kills % 2 === 0 ? await cutOff(replica, master) : () => {}
    await sleep(arena.random.between(behindMs.least, behindMs.most))
    await master.kill()
    letGo()
    forgotten.push({ from, to: Date.now() + readMs })
    arena.kills++
    await cluster.masterOf(root)
    await arena.heal(crew.members, () => master.start())
    await cluster.settled()
    arena.options.progress(`${arena.kills} kills`)
  }
  return crew.judge({
    injected: arena.kills,
    repeats: true,
    graceMs: settings.graceMs,
    ...(wait === undefined
      ? {
          forgotten,
          several: true,
          note: `durability none, replica behind by up to ${behindMs.most} ms: loss measured`,
        }
      : { note: `durability { wait: ${wait} }, replica behind by up to ${behindMs.most} ms` }),
  })
}

/** A moment before which all that was written is at a replica; one may be behind without our doing. */
async function allReplicated(root: string, master: RedisServer): Promise<number> {
  const now = Date.now()
  const replicas = await ask(master.port, async (redis) => {
    await redis.set(`${root}:probe`, now)
    return redis.wait(1, 10_000)
  })
  if (replicas < 1) throw new Error('no replica has heard of the master for ten seconds')
  return now
}

/** Stands still, and what its master sends is sent to nobody. */
async function cutOff(replica: RedisServer, master: RedisServer): Promise<() => void> {
  const info = await ask(replica.port, (redis) => redis.info('server'))
  const pid = Number(/process_id:(\d+)/.exec(info)?.[1])
  process.kill(pid, 'SIGSTOP')
  await ask(master.port, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'replica'))
  return () => void process.kill(pid, 'SIGCONT')
}

/** As an administrator does it: the master waits for its replica and hands over. */
async function failover(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 10)
  const place = redisPlace(arena.place)
  const crew = await startCrew(arena)
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(300, 1_000))
    const root = arena.random.pick(rootsOf(place))
    await arena.heal(crew.members, async () => void (await arena.cluster.failover(root)))
    arena.options.progress(`${round + 1} of ${rounds} failovers`)
  }
  return crew.judge({ injected: rounds, repeats: true, graceMs: settings.graceMs })
}

/** To another master and back, with all keys, while they are used; for a while each of the two has some of them. */
async function moveSlot(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 12)
  const place = redisPlace(arena.place)
  const { cluster } = arena
  const crew = await startCrew(arena)
  for (let round = 0; round < rounds; round++) {
    const slot = await cluster.slotOf(arena.random.pick(rootsOf(place)))
    await sleep(arena.random.between(300, 1_000))
    const source = await cluster.masterOf(slot)
    const view = await viewOf(source.port)
    const target = view.find(({ isMaster, isMyself, slots }) => isMaster && !isMyself && slots.length > 0)
    if (target === undefined) throw new Error('there is no other master')
    await moveSome(arena, slot, source.port, target.port)
    await sleep(arena.random.between(200, 1_500))
    await arena.heal(crew.members, () => cluster.moveSlot(slot, target.port))
    arena.options.progress(`${round + 1} of ${rounds} moves`)
  }
  return crew.judge({
    injected: rounds,
    repeats: true,
    graceMs: settings.graceMs,
    note: 'half moved for up to 1.5 s',
  })
}

async function moveSome(arena: Arena, slot: number, from: number, to: number): Promise<void> {
  const idOf = async (port: number) => (await viewOf(port)).find(({ isMyself }) => isMyself)?.id ?? ''
  const [source, target] = [await idOf(from), await idOf(to)]
  await ask(to, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source))
  await ask(from, async (redis) => {
    await redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
    const keys = (await redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 1_000)) as string[]
    const some = keys.filter(() => arena.random.chance(0.5))
    if (some.length > 0) await redis.call('MIGRATE', '127.0.0.1', to, '', 0, 5_000, 'KEYS', ...some)
  })
}

async function flushAll(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 40)
  const ports = portsOf(redisPlace(arena.place))
  const crew = await startCrew(arena)
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(20, 300))
    await arena.heal(crew.members, async () => {
      await Promise.all(ports.map((port) => ask(port, (redis) => redis.script('FLUSH', 'SYNC'))))
    })
    arena.options.progress(`${round + 1} of ${rounds} rounds`)
  }
  return crew.judge({ injected: rounds, repeats: true })
}

/** Connections to a node that has some of the jobs fall silent, for the processes only: the nodes still hear each other. */
async function blackHole(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 4)
  const place = redisPlace(arena.place)
  const proxies = await Promise.all(
    portsOf(place).map(async (port) => ({ port, proxy: await startProxy(`redis://127.0.0.1:${port}`) })),
  )
  const nodes = Object.fromEntries(
    proxies.map(({ port, proxy }) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: proxy.port }]),
  )
  try {
    const crew = await startCrew(arena, { ...place, nodes })
    for (let round = 0; round < rounds; round++) {
      await sleep(arena.random.between(300, 1_000))
      const master = await arena.cluster.masterOf(arena.random.pick(rootsOf(place)))
      const network = proxies.find(({ port }) => port === master.port)?.proxy
      network?.blackHole()
      await sleep(2_000)
      await arena.heal(crew.members, () => network?.heal())
      arena.options.progress(`${round + 1} of ${rounds} faults`)
    }
    return await crew.judge({ injected: rounds, repeats: true, graceMs: settings.graceMs })
  } finally {
    await arena.fleet.killAll()
    await Promise.all(proxies.map(({ proxy }) => proxy.close()))
  }
}

/** A cluster loses, changes and moves what has the jobs: other nodes go on, and so do the processes. */
import { startProxy } from '../../servers/proxy.js'
import { viewOf } from '../../servers/redis-cluster-view.js'
import { ask } from '../../servers/redis-process.js'
import { type Arena, sleep } from '../arena.js'
import type { Period } from '../checker.js'
import { type Fault, fault } from '../fault.js'
import { portsOf, redisPlace, rootOf } from '../redis-engine.js'
import type { Row } from '../row.js'
import { settings } from '../settings.js'
import { roundsOf, startCrew } from './crew.js'

/** Replicas are behind by so much at most when all is well, and answers are read so long after a kill. */
const behindMs = 1_000
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
 * The master of the jobs, under load; its replica takes over, and it comes back as the replica of that one. With `wait`
 * nothing is lost; without, what had not reached the replica is, and is counted.
 */
async function killMasters(arena: Arena, wait: number | undefined): Promise<Row> {
  const place = redisPlace(arena.place)
  const { cluster } = arena
  const crew = await startCrew(arena, { ...place, ...(wait !== undefined && { wait }) })
  const forgotten: Period[] = []
  while (arena.kills < arena.options.kills) {
    await sleep(arena.random.between(300, 1_000))
    const master = await cluster.masterOf(rootOf(place))
    const t = Date.now()
    await master.kill()
    forgotten.push({ from: t - behindMs, to: Date.now() + readMs })
    arena.kills++
    await cluster.masterOf(rootOf(place))
    await arena.heal(crew.members, () => master.start())
    await cluster.settled()
    arena.options.progress(`${arena.kills} kills`)
  }
  return crew.judge({
    injected: arena.kills,
    repeats: true,
    graceMs: settings.graceMs,
    ...(wait === undefined
      ? { forgotten, note: 'durability none; loss measured' }
      : { note: `durability { wait: ${wait} }` }),
  })
}

/** As an administrator does it: the master waits for its replica and hands over. */
async function failover(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 10)
  const place = redisPlace(arena.place)
  const crew = await startCrew(arena)
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(300, 1_000))
    await arena.heal(crew.members, async () => void (await arena.cluster.failover(rootOf(place))))
    arena.options.progress(`${round + 1} of ${rounds} failovers`)
  }
  return crew.judge({ injected: rounds, repeats: true, graceMs: settings.graceMs })
}

/** To another master and back, with all keys, while they are used. */
async function moveSlot(arena: Arena): Promise<Row> {
  const rounds = roundsOf(arena, 10)
  const place = redisPlace(arena.place)
  const { cluster } = arena
  const crew = await startCrew(arena)
  const slot = await cluster.slotOf(rootOf(place))
  const took: number[] = []
  for (let round = 0; round < rounds; round++) {
    await sleep(arena.random.between(300, 1_000))
    const source = await cluster.masterOf(slot)
    const view = await viewOf(source.port)
    const other = view.find(({ isMaster, isMyself, slots }) => isMaster && !isMyself && slots.length > 0)
    await arena.heal(crew.members, async () => {
      const t = Date.now()
      await cluster.moveSlot(slot, other?.port ?? 0)
      took.push(Date.now() - t)
    })
    arena.options.progress(`${round + 1} of ${rounds} moves`)
  }
  return crew.judge({
    injected: rounds,
    repeats: true,
    graceMs: settings.graceMs,
    note: `a move took up to ${Math.max(...took)} ms`,
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

/** Connections to the node that has the jobs fall silent, for the processes only: the nodes still hear each other. */
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
      const master = await arena.cluster.masterOf(rootOf(place))
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

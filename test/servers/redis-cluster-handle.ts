/** What a test does with a cluster that runs. */
import type { RedisServer } from './redis.js'
import { type NodeView, owns, viewOf } from './redis-cluster-view.js'
import { ask, stopAll } from './redis-process.js'
import { until } from './until.js'

export interface RedisCluster {
  /** All six, each of which can be killed and started; the first three were the masters at the start. */
  readonly nodes: readonly RedisServer[]
  /** Where to find it: the ports of the masters at the start. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  slotOf(key: string): Promise<number>
  /** Who has the slot of a key now; waits while nobody has, as after a kill. */
  masterOf(key: string | number): Promise<RedisServer>
  /** A replica of this master that runs. */
  replicaOf(master: { readonly port: number }): Promise<RedisServer>
  /** A replica of the key's master takes over, nothing is lost; resolves with it when all nodes know. */
  failover(key: string | number): Promise<RedisServer>
  /** Moves a slot with its keys while clients use them; resolves when all nodes know. */
  moveSlot(slot: number, toPort: number): Promise<void>
  /** All nodes that run say that all is well, agree on who has what, and replicas are in sync. */
  settled(): Promise<void>
  stop(): Promise<void>
}

const patienceMs = 20_000
/** A replica that was asked to take over tries for so long. */
const failoverMs = 6_000

export function clusterOf(nodes: readonly RedisServer[]): RedisCluster {
  return {
    nodes,
    addresses: nodes.slice(0, 3).map(({ host, port }) => ({ host, port })),
    slotOf,
    masterOf: async (key) => nodeAt((await ownerOf(await toSlot(key))).port),
    replicaOf,
    failover,
    moveSlot,
    settled,
    stop: () => stopAll(nodes),
  }

  function running(): RedisServer[] {
    return nodes.filter((node) => node.running)
  }

  function nodeAt(port: number): RedisServer {
    const node = nodes.find((one) => one.port === port)
    if (node === undefined) throw new Error(`no node of ours is on port ${port}`)
    return node
  }

  function slotOf(key: string): Promise<number> {
    return ask(anyPort(), (redis) => redis.cluster('KEYSLOT', key))
  }

  function anyPort(): number {
    const [node] = running()
    if (node === undefined) throw new Error('no node runs')
    return node.port
  }

  async function toSlot(key: string | number): Promise<number> {
    return typeof key === 'number' ? key : slotOf(key)
  }

  /** Each node knows about itself first; after a failover two may claim a slot, and the newer claim is right. */
  function ownerOf(slot: number): Promise<NodeView> {
    return until(`slot ${slot} has a master`, patienceMs, async () => {
      const claims = (await selves()).filter((self) => owns(self, slot))
      return claims.sort((a, b) => b.epoch - a.epoch)[0]
    })
  }

  async function selves(): Promise<NodeView[]> {
    const views = await Promise.all(running().map(({ port }) => viewOf(port)))
    return views.flatMap((view) => view.filter((node) => node.isMyself))
  }

  function replicaOf(master: { readonly port: number }): Promise<RedisServer> {
    return until(`a replica of ${master.port} runs`, patienceMs, async () => {
      const { id } = (await viewOf(anyPort())).find((node) => node.port === master.port) ?? {}
      const replica = (await selves()).find((self) => id !== undefined && self.masterId === id)
      return replica && nodeAt(replica.port)
    })
  }

  async function failover(key: string | number): Promise<RedisServer> {
    const slot = await toSlot(key)
    const next = await replicaOf(await ownerOf(slot))
    await until(`${next.port} takes over`, patienceMs, async () => {
      await ask(next.port, (redis) => redis.call('CLUSTER', 'FAILOVER'))
      return until(`${next.port} takes over`, failoverMs, async () => {
        return (await ownerOf(slot)).port === next.port ? true : undefined
      })
    })
    await settled()
    return next
  }

  async function moveSlot(slot: number, toPort: number): Promise<void> {
    const [source, all] = [await ownerOf(slot), await selves()]
    const target = all.find((node) => node.port === toPort && node.isMaster)
    if (target === undefined) throw new Error(`no master is on port ${toPort}`)
    if (source.port === toPort) return
    await ask(toPort, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source.id))
    await ask(source.port, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target.id))
    await moveKeys(source.port, slot, toPort)
    // The new master first: should it fail, the old one still has the slot and sends clients on.
    const others = all.filter((node) => node.isMaster && node.id !== target.id && node.id !== source.id)
    for (const { port } of [target, source, ...others]) {
      await ask(port, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', target.id))
    }
    await settled()
  }

  function settled(): Promise<void> {
    return until('the cluster is well', patienceMs, async () => {
      const ports = running().map(({ port }) => port)
      const views = await Promise.all(ports.map(viewOf))
      const agreed = new Set(views.map(ownersIn)).size === 1
      const well = agreed && (await Promise.all(ports.map(isWell))).every((one) => one)
      return well ? true : undefined
    }).then(() => {})
  }
}

const keysAtOnce = 100

async function moveKeys(fromPort: number, slot: number, toPort: number): Promise<void> {
  await ask(fromPort, async (redis) => {
    for (;;) {
      const keys = (await redis.call('CLUSTER', 'GETKEYSINSLOT', slot, keysAtOnce)) as string[]
      if (keys.length === 0) return
      // REPLACE: a key that is here still is the one that clients use, whatever an attempt before left there.
      await redis.call('MIGRATE', '127.0.0.1', toPort, '', 0, 5_000, 'REPLACE', 'KEYS', ...keys)
    }
  })
}

/** Who has which slots, and who is whose replica, as text to compare. */
function ownersIn(view: readonly NodeView[]): string {
  const lines = view
    .filter(({ flags }) => !flags.includes('fail'))
    .map(({ id, masterId, slots }) => `${id} ${masterId ?? slots.join(' ')}`)
  return lines.sort().join('\n')
}

async function isWell(port: number): Promise<boolean> {
  return ask(port, async (redis) => {
    const state = String(await redis.call('CLUSTER', 'INFO'))
    const replication = await redis.info('replication')
    return (
      /cluster_state:ok/.test(state) &&
      /cluster_slots_ok:16384/.test(state) &&
      (/role:master/.test(replication) || /master_link_status:up/.test(replication))
    )
  })
}

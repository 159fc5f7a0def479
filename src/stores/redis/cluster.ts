/**
 * A shard lies in one slot, so all that we need of a cluster is the node which has that slot. Any node says who that
 * is, by MOVED. Commands go to that node's own connection: what waits for replicas must wait where the write was.
 */
import type { Dialler, Dialling, Manner, NatMap } from './dial.js'
import type { RedisClient } from './driver.js'
import { hostIn, movedTo } from './errors.js'
import { type Line, openLine } from './line.js'
import type { Address } from './url.js'

export class ClusterDialler implements Dialler {
  readonly #make: (address: Address) => RedisClient
  readonly #seeds: () => readonly Address[]
  readonly #manner: Manner
  readonly #natMap: NatMap | undefined
  /** Those that the cluster itself told of: the first ones may all have been replaced since. */
  #learned: readonly Address[] = []
  #turn = 0

  constructor(
    make: (address: Address) => RedisClient,
    seeds: () => readonly Address[],
    manner: Manner,
    natMap?: NatMap,
  ) {
    this.#make = make
    this.#seeds = seeds
    this.#manner = manner
    this.#natMap = natMap
  }

  async dial(root: string, { lostBy, closing, timeouts = this.#manner.timeouts }: Dialling): Promise<Line> {
    let address = this.#moved(lostBy, '') ?? this.#next()
    for (let hops = 1; ; hops++) {
      const line = await openLine(this.#make(address), timeouts, closing)
      try {
        await this.#manner.greet(line, root)
        await this.#learn(line, address.host)
        return line
      } catch (error) {
        line.sever(error)
        const elsewhere = this.#moved(error, address.host)
        if (elsewhere === undefined || hops === mostHops) throw error
        address = elsewhere
      }
    }
  }

  /** Each attempt begins at another node: the last one may be cut off from the others, and not know it yet. */
  #next(): Address {
    const nodes = [...this.#seeds(), ...this.#learned]
    return nodes[this.#turn++ % nodes.length] as Address
  }

  #moved(error: unknown, host: string): Address | undefined {
    const address = movedTo(error, host)
    return address === undefined || address.host === '' ? undefined : this.#outside(address)
  }

  async #learn(line: Line, host: string): Promise<void> {
    const [slots] = await line.ask([['CLUSTER', 'SLOTS']])
    if (!Array.isArray(slots)) return // forbidden: the first ones must do
    const nodes = slots.flatMap(([, , ...nodes]: SlotRange) => nodes)
    const names = nodes.map(([name, port]) => this.#outside({ host: hostIn(name, host), port }))
    this.#learned = [...new Map(names.map((node) => [`${node.host}:${node.port}`, node])).values()]
  }

  #outside(address: Address): Address {
    const name = `${address.host}:${address.port}`
    const mapped = typeof this.#natMap === 'function' ? this.#natMap(name) : this.#natMap?.[name]
    return mapped ? { host: mapped.host, port: mapped.port } : address
  }
}

/** More would be a circle: two nodes that each think of the other. */
const mostHops = 5

type SlotRange = [first: number, last: number, ...nodes: [host: string | null, port: number][]]

import { Doorkeeper } from '../../core/traffic/depth.js'
import type { Tables } from './tables.js'

/** The doorkeepers of the queues that have a limit on their depth, for one insert. */
export class Doors {
  readonly #tables: Tables
  #known: Map<string, Doorkeeper | undefined> | undefined

  constructor(tables: Tables) {
    this.#tables = tables
  }

  of(queue: string): Doorkeeper | undefined {
    if (this.#tables.kinds.findQueue(queue)?.traffic !== true) return undefined
    this.#known ??= new Map()
    if (!this.#known.has(queue)) this.#known.set(queue, this.#doorkeeper(queue))
    return this.#known.get(queue)
  }

  /** Keeps which marks were reached. */
  close(): void {
    for (const [queue, door] of this.#known ?? []) {
      const gate = this.#tables.places.findGate({ of: 'queue', name: queue })
      if (door === undefined || gate === undefined || gate.full === door.full) continue
      gate.full = door.full
      this.#tables.places.keepGate(gate)
    }
  }

  #doorkeeper(queue: string): Doorkeeper | undefined {
    const { places, kinds } = this.#tables
    const gate = places.findGate({ of: 'queue', name: queue })
    const policy = gate?.settings.depth
    if (gate === undefined || policy === undefined) return undefined
    return new Doorkeeper(policy, gate.full, kinds.pending(queue))
  }
}

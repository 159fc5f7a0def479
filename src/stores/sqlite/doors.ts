import { laneCount } from '../../core/lanes.js'
import { Doorkeeper } from '../../core/traffic/depth.js'
import { traffic as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import type { Places } from './traffic.js'

/** The doorkeepers of the queues that have a limit on their depth, for one insert. */
export interface Doors {
  of(queue: string): Doorkeeper | undefined
  /** Keeps which marks were reached. */
  close(): void
}

export function makeDoors(tables: Tables, places: Places): () => Doors {
  const pending = tables.db.prepare<[number], { lane: number; n: number }>(sql.pendingByLane)

  return () => {
    const known = new Map<string, Doorkeeper | undefined>()
    return {
      of(queue) {
        const row = tables.queueRow(queue)
        if (row === undefined || row.traffic === 0) return undefined
        if (!known.has(queue)) known.set(queue, doorkeeper(queue, row.id))
        return known.get(queue)
      },
      close() {
        for (const [queue, door] of known) {
          const gate = places.findGate({ of: 'queue', name: queue })
          if (door === undefined || gate === undefined || gate.full === door.full) continue
          gate.full = door.full
          places.keepGate(gate)
        }
      },
    }
  }

  function doorkeeper(queue: string, id: number): Doorkeeper | undefined {
    const gate = places.findGate({ of: 'queue', name: queue })
    const policy = gate?.settings.depth
    if (gate === undefined || policy === undefined) return undefined
    const stored = new Map(pending.all(id).map(({ lane, n }) => [lane, n]))
    const lanes = Array.from({ length: laneCount }, (_, lane) => {
      const matches = (kind: number) => tables.kind(kind).queueId === id && tables.kind(kind).lane === lane
      return (stored.get(lane) ?? 0) + tables.tally.change('pending', matches)
    })
    return new Doorkeeper(policy, gate.full, lanes)
  }
}

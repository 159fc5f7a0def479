/** What chaos can be made of: engines under workers, outboxes under relays, and event stores under projections. */
import { type EngineName, engines } from './engine.js'
import { eventsFaultsOf } from './events/faults.js'
import { type EventsEngine, prepareEvents } from './events/ground.js'
import type { Fault } from './fault.js'
import { faultsOf } from './faults.js'
import { outboxFaultsOf } from './outbox/faults.js'
import { type OutboxEngine, prepareOutbox } from './outbox/ground.js'
import type { Row } from './row.js'
import type { AttackOptions } from './scene.js'

export interface Subject {
  /** Of a full run. */
  readonly kills: number
  readonly faults: readonly BoundFault[]
  /** Starts its servers, with these settings. */
  prepare(settings: Readonly<Record<string, string>>): Promise<Prepared>
}

export type BoundFault = Pick<Fault, 'name' | 'weight'>

interface Prepared {
  run(fault: BoundFault, options: Omit<AttackOptions<string, unknown>, 'engine' | 'ground'>): Promise<Row>
  close(): Promise<void>
}

export const subjects: Readonly<Record<string, Subject>> = {
  sqlite: ofEngine('sqlite', 340),
  postgres: ofEngine('postgres', 380),
  redis: ofEngine('redis', 400),
  'redis-cluster': ofEngine('redis-cluster', 30),
  'outbox-sqlite': ofOutbox('outbox-sqlite', 100),
  'outbox-postgres': ofOutbox('outbox-postgres', 200),
  'events-sqlite': ofEvents('events-sqlite', 60),
  'events-postgres': ofEvents('events-postgres', 100),
}

function ofEngine(engine: EngineName, kills: number): Subject {
  return bind(engine, kills, faultsOf(engine), (settings) => engines[engine].prepare(settings))
}

function ofOutbox(engine: OutboxEngine, kills: number): Subject {
  return bind(engine, kills, outboxFaultsOf(engine), (settings) => prepareOutbox(engine, settings))
}

function ofEvents(engine: EventsEngine, kills: number): Subject {
  return bind(engine, kills, eventsFaultsOf(engine), (settings) => prepareEvents(engine, settings))
}

function bind<E extends string, G extends { close(): Promise<void> }>(
  engine: E,
  kills: number,
  faults: readonly Fault<E, G>[],
  prepare: (settings: Readonly<Record<string, string>>) => Promise<G>,
): Subject {
  return {
    kills,
    faults,
    async prepare(settings) {
      const ground = await prepare(settings)
      return {
        run: (fault, options) => (fault as Fault<E, G>).run({ ...options, engine, ground }),
        close: () => ground.close(),
      }
    },
  }
}

/** What happens in the streams of a run, and who follows. */
import { defineJob, type Millrace } from 'millrace'
import {
  defineEvent,
  defineProjection,
  defineReaction,
  type Projection,
  type ProjectionContext,
  type TableContext,
} from 'millrace/events'
import type { Doom } from '../fail-points.js'
import type { NotedEvent, ReadModels } from './book.js'
import type { EventsFailPoint } from './fail-points.js'

interface Entry {
  readonly key: string
  readonly amount: number
}

export const Added = defineEvent<'added', Entry>({ type: 'added' })
/** It leads to a job. */
export const Ordered = defineEvent<'ordered', Entry>({ type: 'ordered' })
export const allEvents = [Added, Ordered] as const

/** Read models, by name, and the shares that they are worked on in. */
export const models = { totals: 3, mirror: 2 } as const
export type ModelName = keyof typeof models
export const reactionName = 'orders'

/** What a process does with its handlers besides. */
export interface Around {
  readonly doom: Doom<EventsFailPoint>
  /** In the transaction of a handler. */
  saw(tx: unknown, event: NotedEvent): void
  /** A table is dropped in this transaction. */
  drops(tx: unknown): void
}

export function modelProjection(name: ModelName, written: ReadModels, around: Around): Projection {
  const note = async (event: NotedEvent, { tx, table, generation }: ProjectionContext) => {
    await written.note({ tx, table, generation }, name, event)
    around.saw(tx(), event)
    around.doom.at('handling')
  }
  return defineProjection({
    name,
    events: allEvents,
    parts: models[name],
    on: { added: note, ordered: note },
    async create(context: TableContext) {
      await written.create(context)
      around.doom.at('creating')
    },
    async drop(context: TableContext) {
      await written.drop(context)
      around.drops(context.tx())
      around.doom.at('dropping')
    },
  })
}

export const fulfil = defineJob<Entry>({
  name: 'fulfil',
  retain: '1h',
  run: () => {
    throw new Error('chaos: no handler here')
  },
})

export function orderReaction(to: Millrace, { doom }: Pick<Around, 'doom'>): Projection {
  return defineReaction({
    name: reactionName,
    events: [Ordered],
    parts: 2,
    from: 'beginning',
    to,
    on: {
      async ordered({ data }, { enqueue }) {
        await enqueue(fulfil, data)
        doom.at('handling')
      },
    },
  })
}

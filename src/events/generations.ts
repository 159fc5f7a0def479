import { MillraceError } from '../core/errors.js'
import { invalid } from '../core/options.js'
import type { AnyProjection, Projection, TableContext } from './define-projection.js'
import type { Checkpoint, ProjectionRecord } from './log.js'
import type { EventRuntime } from './runtime.js'
import { isOwn } from './stream-name.js'
import { tableOf } from './table.js'

/** The projections that follow the log by themselves. */
export function followers({ projections }: EventRuntime): Projection[] {
  return [...projections.values()].filter((projection) => projection.kind !== 'inline')
}

/** The store's own definition of it; another one of that name is refused. */
export function follower({ projections }: EventRuntime, given: AnyProjection | string): Projection {
  const name = typeof given === 'string' ? given : given?.name
  const known = projections.get(name)
  if (known === undefined || (typeof given !== 'string' && known !== given))
    throw invalid(
      'projection',
      name,
      `one of the store's: ${[...projections.keys()].join(', ') || 'it has none'}`,
    )
  if (known.kind === 'inline')
    throw invalid(
      'projection',
      name,
      'one that is not inline: those are written with each append, and have no generations, checkpoints or lag',
    )
  return known
}

export async function recordOf(runtime: EventRuntime, { name }: Projection): Promise<ProjectionRecord> {
  const record = (await runtime.log.projections()).find((one) => one.name === name)
  if (record !== undefined) return record
  throw new MillraceError(
    'STORE_REFUSED',
    `the log has forgotten projection '${name}'; open the store anew`,
    {
      field: 'projection',
      value: name,
    },
  )
}

/** One that the log knows, whether a store has its definition or not. */
export async function forget({ log }: EventRuntime, name: string): Promise<void> {
  const known = (await log.projections()).map((record) => record.name).filter((one) => !isOwn(one))
  if (!known.includes(name))
    throw invalid('projection', name, `one that the log knows: ${known.join(', ') || 'it knows none'}`)
  await log.forget(name)
}

export function checkpointsOf({ checkpoints }: ProjectionRecord, generation: number): Checkpoint[] {
  return checkpoints.filter((checkpoint) => checkpoint.generation === generation)
}

/** How far all parts of a generation are. */
export function positionOf(record: ProjectionRecord, generation: number): number {
  return Math.min(...checkpointsOf(record, generation).map(({ position }) => position))
}

/**
 * Makes known what is not, with its first table, in one transaction: of several processes that open at the same time one
 * does.
 */
export async function declareAll(runtime: EventRuntime): Promise<void> {
  const { log } = runtime
  const known = new Map((await log.projections()).map((record) => [record.name, record]))
  for (const projection of followers(runtime)) {
    const record = known.get(projection.name) ?? (await declare(runtime, projection))
    if (record.parts !== projection.parts)
      throw invalid(
        `parts of projection '${projection.name}'`,
        projection.parts,
        `${record.parts}, as it was when the log first knew it; another number needs another name`,
      )
  }
}

async function declare(runtime: EventRuntime, projection: Projection): Promise<ProjectionRecord> {
  const { name, parts, from } = projection
  const after = from === 'end' ? await runtime.log.end() : 0
  return inTransaction(runtime, async (tx) => {
    const record = await runtime.log.declare({ name, parts, after }, tx)
    if (record.fresh) await makeTable(projection, record.live, tx)
    return record
  })
}

/** An empty one, whatever was left there by one that was killed or forgotten. */
export async function makeTable(projection: Projection, generation: number, tx: unknown): Promise<void> {
  const context = contextOf(projection, generation, tx)
  await projection.drop?.(context)
  await projection.create?.(context)
}

export async function inTransaction<T>({ log }: EventRuntime, work: (tx: unknown) => Promise<T>): Promise<T> {
  const transaction = await log.begin()
  try {
    const result = await work(transaction.tx)
    await transaction.commit()
    return result
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}

export function contextOf({ name }: Projection, generation: number, tx: unknown): TableContext {
  return { tx: <Tx>() => tx as Tx, table: tableOf(name, generation), generation }
}

import type { Projection } from './define-projection.js'
import { checkpointsOf, positionOf } from './generations.js'
import type { Checkpoint, ProjectionRecord } from './log.js'
import type { EventRuntime } from './runtime.js'
import { isOwn } from './stream-name.js'

export interface EventStats {
  /** The position of the newest event. */
  readonly end: number
  readonly projections: readonly ProjectionStats[]
}

export interface ProjectionStats {
  readonly name: string
  /** The store has its definition; otherwise it is another process's, or was left behind: see `store.forget`. */
  readonly known: boolean
  /** The generation that readers use. */
  readonly generation: number
  /** Everything up to here is done by all of its parts. */
  readonly position: number
  /** Positions that are still to be looked at by the part that is farthest behind. */
  readonly behind: number
  /**
   * Milliseconds since the oldest event that it has not handled; 0 when there is none. Undefined when none of the next
   * events is for it, or the store does not have its definition.
   */
  readonly age: number | undefined
  readonly parts: readonly PartStats[]
  /** The generation that is being built, and how far it is. */
  readonly building: { readonly generation: number; readonly position: number } | undefined
}

export interface PartStats {
  readonly position: number
  /** The worker that is at it; undefined when none is. */
  readonly worker: string | undefined
}

export async function readStats(runtime: EventRuntime): Promise<EventStats> {
  await runtime.ready()
  const end = await runtime.log.end()
  const records = (await runtime.log.projections()).filter(({ name }) => !isOwn(name))
  const projections = await Promise.all(records.map((record) => statsOf(runtime, record, end)))
  return { end, projections: projections.sort((a, b) => (a.name < b.name ? -1 : 1)) }
}

async function statsOf(
  runtime: EventRuntime,
  record: ProjectionRecord,
  end: number,
): Promise<ProjectionStats> {
  const { name, live, building } = record
  const definition = runtime.projections.get(name)
  const checkpoints = checkpointsOf(record, live)
  const position = positionOf(record, live)
  const known = definition !== undefined && definition.kind !== 'inline'
  return {
    name,
    known,
    generation: live,
    position,
    behind: Math.max(0, end - position),
    age: known ? await ageOf(runtime, definition, checkpoints, end) : position >= end ? 0 : undefined,
    parts: checkpoints.map((checkpoint) => ({ position: checkpoint.position, worker: checkpoint.owner })),
    building:
      building === undefined ? undefined : { generation: building, position: positionOf(record, building) },
  }
}

/** Of the part that is farthest behind; looks at a bounded number of positions. */
async function ageOf(
  { log, clock }: EventRuntime,
  { events, parts }: Projection,
  checkpoints: readonly Checkpoint[],
  end: number,
): Promise<number | undefined> {
  const last = checkpoints.reduce((a, b) => (b.position < a.position ? b : a))
  if (last.position >= end) return 0
  const page = await log.all({
    after: last.position,
    limit: lookAt,
    types: events.map(({ type }) => type),
    share: parts === 1 ? undefined : { part: last.part, of: parts },
  })
  const [oldest] = page.events
  if (oldest !== undefined) return Math.max(0, clock.now() - oldest.at)
  return page.more ? undefined : 0
}

const lookAt = 200

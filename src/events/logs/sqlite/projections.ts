import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type {
  AdvanceRequest,
  Checkpoint,
  DeclaredProjection,
  Held,
  HoldRequest,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
} from '../../log.js'
import { nextRebuild, noProjection, type Rebuildable } from '../rebuild.js'
import { atOneLook, prepare } from './prepare.js'
import { projections as sql } from './sql.generated.js'

interface ProjectionRow {
  readonly name: string
  readonly parts: number
  readonly live: number
  readonly building: number | null
}

type CheckpointRow = Omit<Checkpoint, 'owner'> & { readonly owner: string | null }
type Part = Pick<AdvanceRequest, 'name' | 'generation' | 'part'>

/** What has a `tx` or not runs inside a transaction either way. */
export function makeProjections(db: Database, clock: Clock) {
  const declareOne = prepare<[string, number]>(db, sql.declare)
  const addPart = prepare<[string, number, number, number]>(db, sql.addPart)
  const one = prepare<[string], ProjectionRow>(db, sql.one)
  const all = prepare<[], ProjectionRow>(db, sql.all)
  const checkpoints = prepare<{ name: string; now: number }, CheckpointRow>(db, sql.checkpoints)
  const canHold = prepare<Part & { token: string; renewal: number; now: number }, number>(
    db,
    sql.canHold,
  ).pluck()
  const holdPart = prepare<Omit<HoldRequest, 'renewal'> & { renewal: number; now: number }, Held>(
    db,
    sql.hold,
  )
  const advancePart = prepare<Part & { token: string; position: number; now: number }>(db, sql.advance)
  const release = prepare<Part>(db, sql.release)
  const build = prepare<[number | null, string]>(db, sql.build)
  const swap = prepare<[string]>(db, sql.swap)
  const dropGeneration = prepare<[string, number]>(db, sql.dropGeneration)
  const forgetOne = prepare<[string]>(db, sql.forget)
  const forgetParts = prepare<[string]>(db, sql.forgetParts)

  return { declare, forget, list: atOneLook(db, list), couldHold, hold, advance, rebuild }

  function declare({ name, parts, after }: NewProjection): DeclaredProjection {
    const fresh = declareOne.run(name, parts).changes > 0
    if (fresh) addParts(name, 1, parts, after)
    return { ...recordOf(one.get(name) as ProjectionRow), fresh }
  }

  function forget(name: string): void {
    forgetParts.run(name)
    forgetOne.run(name)
  }

  function list(): ProjectionRecord[] {
    return all.all().map(recordOf)
  }

  /** Looking takes no lock: who waits for another's lease keeps nobody from writing. */
  function couldHold({ name, generation, part, token, renewal }: HoldRequest): boolean {
    return (
      canHold.get({ name, generation, part, token, renewal: Number(renewal ?? false), now: clock.now() }) !==
      undefined
    )
  }

  function hold({ renewal, ...request }: HoldRequest): Held | undefined {
    return holdPart.get({ ...request, renewal: Number(renewal ?? false), now: clock.now() })
  }

  function advance({ done, name, generation, part, token, position }: AdvanceRequest): 'advanced' | 'lost' {
    const { changes } = advancePart.run({ name, generation, part, token, position, now: clock.now() })
    if (changes === 0) return 'lost'
    if (done) release.run({ name, generation, part })
    return 'advanced'
  }

  function rebuild(change: RebuildChange): ProjectionRecord {
    const { name } = change
    const row = one.get(name)
    if (row === undefined) throw noProjection(change)
    const { builds, drops } = nextRebuild(toRebuildable(row), change)
    if (change.do === 'swap') swap.run(name)
    else build.run(builds ?? null, name)
    if (builds !== undefined) addParts(name, builds, row.parts, 0)
    if (drops !== undefined) dropGeneration.run(name, drops)
    return recordOf(one.get(name) as ProjectionRow)
  }

  function addParts(name: string, generation: number, parts: number, position: number): void {
    for (let part = 0; part < parts; part++) addPart.run(name, generation, part, position)
  }

  function recordOf(row: ProjectionRow): ProjectionRecord {
    const { name, parts } = row
    const rows = checkpoints.all({ name, now: clock.now() })
    return {
      name,
      parts,
      ...toRebuildable(row),
      checkpoints: rows.map(({ owner, ...checkpoint }) => ({ ...checkpoint, owner: owner ?? undefined })),
    }
  }
}

function toRebuildable({ live, building }: ProjectionRow): Rebuildable {
  return { live, building: building ?? undefined }
}

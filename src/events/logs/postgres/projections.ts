import type { Query } from '../../../databases/postgres/tx/library.js'
import type {
  AdvanceRequest,
  DeclaredProjection,
  Held,
  HoldRequest,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
} from '../../log.js'
import { nextRebuild, noProjection } from '../rebuild.js'
import type { InSchema } from './in-schema.js'
import { projections as sql } from './sql.generated.js'

/** What is kept of projections, over any connection or transaction: whatever library it is of, it takes texts. */
export class Projections {
  readonly #inSchema: InSchema
  readonly #now: () => string

  /** `now`: empty for the server's clock. */
  constructor(inSchema: InSchema, now: () => string) {
    this.#inSchema = inSchema
    this.#now = now
  }

  async declare(query: Query, { name, parts, after }: NewProjection): Promise<DeclaredProjection> {
    const fresh = await this.#run(query, 'declare', [name, `${parts}`, `${after}`])
    return { ...(await this.#record(query, name)), fresh: fresh.length > 0 }
  }

  async forget(query: Query, name: string): Promise<void> {
    await this.#run(query, 'forget', [name])
  }

  async list(query: Query, name = ''): Promise<ProjectionRecord[]> {
    const rows = await this.#run(query, 'records', [name, this.#now()])
    return rows.map(({ record }) => toRecord(JSON.parse(record as string)))
  }

  async hold(query: Query, request: HoldRequest): Promise<Held | undefined> {
    const { name, generation, part, token, renewal, owner, lease } = request
    const which = renewal ? 'renewal' : ''
    const values = [name, `${generation}`, `${part}`, token, owner, `${lease}`, this.#now(), which]
    const [row] = await this.#run(query, 'hold', values)
    return row && { position: Number(row.position) }
  }

  async advance(query: Query, request: AdvanceRequest): Promise<'advanced' | 'lost'> {
    const { name, generation, part, token, position, done } = request
    const whether = done ? 'done' : ''
    const values = [name, `${generation}`, `${part}`, token, `${position}`, whether, this.#now()]
    const moved = await this.#run(query, 'advance', values)
    return moved.length > 0 ? 'advanced' : 'lost'
  }

  /** Several statements: inside a transaction. */
  async rebuild(query: Query, change: RebuildChange): Promise<ProjectionRecord> {
    const [row] = await this.#run(query, 'lock', [change.name])
    if (row === undefined) throw noProjection(change)
    const building = row.building === null ? undefined : Number(row.building)
    const { builds, drops } = nextRebuild({ live: Number(row.live), building }, change)
    await this.#run(query, change.do, [`${builds ?? drops}`, change.name])
    return this.#record(query, change.name)
  }

  async #record(query: Query, name: string): Promise<ProjectionRecord> {
    return (await this.list(query, name))[0] as ProjectionRecord
  }

  #run(query: Query, statement: keyof typeof sql, values: readonly string[]) {
    return query(this.#inSchema(sql[statement]), values)
  }
}

/** JSON has no undefined. */
function toRecord({ building, checkpoints, ...record }: ProjectionRecord): ProjectionRecord {
  return {
    ...record,
    building: building ?? undefined,
    checkpoints: checkpoints.map(({ owner, ...checkpoint }) => ({
      ...checkpoint,
      owner: owner ?? undefined,
    })),
  }
}

import { bounds } from '../../core/bounds.js'
import { type JobRecord, type JobTrail, jobStates, type LogLine } from '../../core/job.js'
import { totalNames } from '../../core/lifecycle.js'
import type {
  Cause,
  Counts,
  GatePage,
  GateQuery,
  JobPage,
  JobQuery,
  LinkPage,
  LinkQuery,
  SchedulePage,
  ScheduleQuery,
} from '../../core/store.js'
import { gateRecord } from '../../core/traffic/gate.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { links, sizeOf, startOf } from '../ledger/links.js'
import { toRecord } from '../ledger/record.js'
import { readSchedule } from '../page/codecs.js'
import { linksNeed } from '../page/links.js'
import { Needs } from '../page/needs.js'
import type { GateRow } from '../page/places.js'
import { readStep } from '../page/steps.js'
import type { PagedTables } from '../page/tables.js'
import type { AtDesk } from './at-desk.js'
import type { Desk } from './desk.js'
import { read } from './sql.generated.js'
import { Statements } from './statements.js'

/** What can be asked of the store; changes nothing. */
export class Reader {
  readonly #connection: Connection
  readonly #atDesk: AtDesk
  readonly #desk: Desk
  readonly #statements: Statements
  readonly #now: () => number | null
  /** Whose links were read last, and where it was: who reads a page of them reads the next one too. */
  #parent: { readonly id: string; readonly seq: number } | undefined

  constructor(connection: Connection, atDesk: AtDesk, desk: Desk, schema: string, now: () => number | null) {
    this.#connection = connection
    this.#atDesk = atDesk
    this.#desk = desk
    this.#statements = new Statements(read, schema)
    this.#now = now
  }

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    const needs = new Needs()
    for (const id of ids) needs.key('job', id)
    return this.#atDesk.look((tables) => records(tables, ids), { needs })
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    const [jobs = [], logs = [], steps = []] = await this.#ask(
      ['trail', 'logs', 'steps'].map((name) => this.#statements.bound(name, [id])),
    )
    const row = jobs[0] as { rest: string | null } | undefined
    if (row === undefined) return undefined
    const { attempts = [] } = JSON.parse(row.rest ?? '{}') as Partial<JobTrail>
    return {
      attempts,
      logs: logs.map(({ line }: { line: string }) => JSON.parse(line) as LogLine),
      steps: steps.map(({ state }: { state: string }) => readStep(state)),
    }
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#atDesk.look((tables) => {
      const { entries, cursor } = tables.select(query)
      const jobs: JobRecord[] = []
      tables.each(entries, (entry) => void jobs.push(toRecord(tables, entry)))
      return { jobs, cursor }
    })
  }

  async counts(): Promise<Counts> {
    const [kinds = [], paused = []] = await this.#ask([
      this.#statements.bound('counts'),
      this.#statements.bound('paused'),
    ])
    return {
      kinds: kinds.map((row: Record<string, number> & { queue: string; name: string; lane: number }) => ({
        queue: row.queue,
        name: row.name,
        lane: row.lane,
        states: Object.fromEntries(jobStates.map((state) => [state, row[state] ?? 0])) as never,
        totals: Object.fromEntries(totalNames.map((total) => [total, row[`total_${total}`] ?? 0])) as never,
      })),
      paused: paused.map(({ name }: { name: string }) => name),
    }
  }

  async causes(): Promise<Cause[]> {
    const [rows = []] = await this.#ask([this.#statements.bound('causes', [bounds.page])])
    return rows.map(({ first_at, last_at, ...row }: Cause & { first_at: number; last_at: number }) => ({
      ...row,
      firstAt: first_at,
      lastAt: last_at,
    }))
  }

  async gates({ of, owner, names, limit, cursor }: GateQuery): Promise<GatePage> {
    const values = [of, owner ?? null, names ?? null, Number(cursor ?? 0), limit + 1]
    const [rows = []] = (await this.#ask([this.#statements.bound('gates', values)])) as unknown as GateRow[][]
    const page = rows.slice(0, limit)
    const gates = await this.#atDesk.look((tables, now) =>
      tables.books.ofRows(page).map((gate) => gateRecord(gate, now)),
    )
    return { gates, cursor: rows.length > limit ? String(page.at(-1)?.num) : undefined }
  }

  async schedules({ names, limit, cursor }: ScheduleQuery): Promise<SchedulePage> {
    const values = [cursor ?? '', names ?? null, limit + 1]
    const [rows = [], time = []] = await this.#ask([
      this.#statements.bound('schedules', values),
      this.#desk.timeQuery,
    ])
    const schedules = rows.slice(0, limit).map(({ state }: { state: string }) => readSchedule(state))
    const now = this.#now() ?? (time[0] as unknown as { now: number }).now
    return { schedules, cursor: rows.length > limit ? schedules.at(-1)?.name : undefined, now }
  }

  links(query: LinkQuery): Promise<LinkPage> {
    const { parents } = query
    const needs = new Needs()
    for (const id of parents) needs.key('place', id)
    if (this.#parent !== undefined && parents.length === 1 && parents[0] === this.#parent.id)
      needs.window(linksNeed(this.#parent.seq, startOf(query)[1], sizeOf(query)))
    return this.#atDesk.look(
      (tables) => {
        if (parents.length > 1) readAhead(tables, query)
        const page = links((id) => tables.linksOf(id), query)
        this.#parent = parents.length === 1 ? tables.placeOf(parents[0] as string) : undefined
        return page
      },
      { needs },
    )
  }

  #ask(statements: readonly string[]): Promise<readonly (readonly never[])[]> {
    return this.#connection.scripts((ask) => ask(statements.join(';\n')))
  }
}

/**
 * The first links of some parents at once, as many as one call looks at: one after the other each parent would take a try. The
 * one that a call goes on with is asked for by itself.
 */
function readAhead(tables: PagedTables, query: LinkQuery): void {
  const { parents, prefix = '', cursor } = query
  const [at] = startOf(query)
  let found = 0
  for (let i = cursor === undefined ? at : at + 1; i < parents.length && found <= bounds.scan; i += atOnce)
    tables.each(parents.slice(i, i + atOnce), (id) => {
      found += tables.linksOf(id)?.after(prefix, sizeOf(query)).length ?? 0
    })
}

/** Parents whose links are read together. */
const atOnce = 25

function records(tables: PagedTables, ids: readonly string[]): (JobRecord | undefined)[] {
  const found: (JobRecord | undefined)[] = []
  tables.each(ids, (id) => {
    const entry = tables.jobs.get(id)
    found.push(entry === undefined ? undefined : toRecord(tables, entry))
  })
  return found
}

import type { JobState } from '../../core/job.js'
import { bind, type Value } from './literal.js'
import { lockKey, quote } from './schema.js'
import { load, select } from './sql.generated.js'

/** What goes through the jobs of a state, in the order of the list; see select.sql. */
const scans = {
  pending: ['ready', 'waiting'],
  running: ['running'],
  scheduled: ['soonest'],
  retrying: ['soonest'],
  blocked: ['soonest'],
  completed: ['newest', 'done'],
  dead: ['newest'],
  cancelled: ['newest'],
} as const satisfies Record<JobState, readonly string[]>

const wanted = `ROW(${Array.from({ length: 16 }, (_, i) => `$${i + 1}`).join(', ')})::{schema}.wanted`

/** Of each state, with the number of the scan that a row comes from. */
const selects = Object.fromEntries(
  Object.entries(scans).map(([state, names]) => [
    `select/${state}`,
    names
      .map((name, i) => `SELECT ${i} AS scan, s.* FROM {schema}.list_${name}(${wanted}) s`)
      .join(' UNION ALL '),
  ]),
)

/** The statements of one schema, with their parts put in. */
export class Statements {
  readonly #texts = new Map<string, string>()
  readonly #parts: Readonly<Record<string, string>>
  readonly #source: Readonly<Record<string, string>>

  constructor(
    source: Readonly<Record<string, string>>,
    schema: string,
    parts: Readonly<Record<string, string>> = {},
  ) {
    this.#source = source
    this.#parts = { schema: quote(schema), barrier: lockKey(schema, 'barrier'), also: '', ...parts }
  }

  /** Ready to be sent. */
  bound(name: string, values: readonly Value[] = []): string {
    return bind(this.text(name), values)
  }

  text(name: string): string {
    let text = this.#texts.get(name)
    if (text === undefined) {
      const source = this.#source[name]
      if (source === undefined) throw new Error(`there is no statement ${name}`)
      text = this.#filled(source)
      this.#texts.set(name, text)
    }
    return text
  }

  #filled(source: string): string {
    return source.replace(/\{(\w+)\}/g, (_, part: string) => {
      if (part === 'jobAndN') return this.#filled(`${this.#source.job}`.replace('{also}', ', found.n'))
      const text = this.#parts[part] ?? this.#source[part]
      if (text === undefined) throw new Error(`there is no part ${part}`)
      return this.#filled(text)
    })
  }
}

/** For whoever only looks. */
export function looking(schema: string): Statements {
  return new Statements({ ...load, ...selects }, schema, { lock: '', skip: '', lockJob: '' })
}

const locking = { lock: 'FOR UPDATE', skip: 'FOR UPDATE SKIP LOCKED', lockJob: 'FOR UPDATE OF j' }

/** What reads jobs at the desk, and what it takes: functions of the server, which plans them once and not each time. */
const planned: Readonly<Record<string, string>> = {
  byIds: 'text[]',
  byState: 'int, float8, bigint, int',
  completed: 'int, float8, bigint, int',
  inLine: 'int, int, bigint, int',
  inPlace: 'int, float8, bigint, int',
  parentsOf: 'text[]',
}

/** For the desk. */
export function loading(schema: string): Statements {
  const calls = Object.entries(planned).map(([name, types]) => {
    const values = types.split(', ').map((type, i) => `$${i + 1}::${type}`)
    return [name, `SELECT * FROM {schema}.${functionOf(name)}(${values.join(', ')})`]
  })
  return new Statements({ ...load, ...selects, ...Object.fromEntries(calls) }, schema, locking)
}

/** Plans must not depend on what the tables held when they were made. */
export function deskFunctions(schema: string): string[] {
  const statements = new Statements(load, schema, locking)
  return Object.entries(planned).map(
    ([name, types]) => `CREATE OR REPLACE FUNCTION ${quote(schema)}.${functionOf(name)}(${types})
RETURNS SETOF ${quote(schema)}.loaded_job
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$ BEGIN RETURN QUERY ${statements.text(name)}; END $$`,
  )
}

const shelvedAt = `CASE f.state WHEN 6 THEN j.finished_at WHEN 7 THEN j.finished_at
  WHEN 5 THEN coalesce(j.finished_at, (SELECT d.finished_at FROM {schema}.done d WHERE d.last >= j.seq ORDER BY d.last LIMIT 1))
  WHEN 4 THEN coalesce(nullif(j.rank, 'Infinity'), j.created_at) ELSE j.rank END`

/** What the bodies in select.sql become, and what differs in them. */
const lists: Readonly<Record<string, { readonly body: string; readonly [part: string]: string }>> = {
  soonest: { body: 'shelved', at: shelvedAt, past: '>', upto: '<=', down: '', edge: "'Infinity'" },
  newest: { body: 'shelved', at: shelvedAt, past: '<', upto: '>=', down: 'DESC', edge: "'-Infinity'" },
  done: {
    body: 'done',
    at: 'd.finished_at',
    order: 'r.expires_at DESC, r.last DESC',
    back: 'r.expires_at, r.last',
    columns: 'r.first, r.last, r.expires_at, r.finished_at, r.holds',
  },
  ready: {
    body: 'ready',
    at: 'j.created_at',
    order: 'r.last',
    back: 'r.last DESC',
    columns: 'r.first, r.last, r.holds',
  },
  waiting: { body: 'waiting', at: 'j.created_at' },
  running: { body: 'running', at: 'l.at' },
}

/**
 * What a call may look at: jobs, or runs, where a job counts as ten; and how many kinds and times of retention it goes
 * through side by side.
 */
const budgets = { jobs: '5000', runs: '50000', streams: '1000' }

export function listFunctions(schema: string): string[] {
  return Object.entries(lists).map(([name, { body, ...parts }]) => {
    const statements = new Statements(select, schema, { ...parts, ...budgets })
    return `CREATE OR REPLACE FUNCTION ${quote(schema)}.list_${name}(f ${quote(schema)}.wanted)
RETURNS SETOF ${quote(schema)}.listed
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$ ${statements.text(body)} $$`
  })
}

function functionOf(name: string): string {
  return `desk_${name.toLowerCase()}`
}

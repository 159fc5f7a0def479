/**
 * What runs in the server. All functions that one version of Millrace calls are a set, and have the name of the set in
 * theirs, so that those of an older version stand beside them while its workers live; see ADR 21.
 */
import { createHash } from 'node:crypto'
import {
  done,
  enqueue,
  exchange,
  handOver,
  insert,
  joining,
  kind,
  load,
  mark,
  prune,
  select,
  settle,
  take,
  tell,
} from './sql.generated.js'

export const functions = [
  kind,
  mark,
  insert,
  joining,
  enqueue,
  take,
  settle,
  tell,
  exchange,
  handOver,
  done,
  prune,
]

/** Plans must not depend on what the server knows of the tables, which may be nothing, or old. */
export const planner = [
  'enable_seqscan = off',
  'enable_bitmapscan = off',
  'max_parallel_workers_per_gather = 0',
  'jit = off',
]

/** What functions run under. `nested`: what they go through is short, and what they look for has an index. */
export const settings = {
  steady: ['search_path = pg_catalog, pg_temp', 'plan_cache_mode = force_generic_plan', ...planner]
    .map((setting) => `SET ${setting}`)
    .join('\n'),
  nested: 'SET enable_hashjoin = off\nSET enable_mergejoin = off',
}

/** Statements of load.sql that the server plans once and not each time, and what they take. */
export const planned: Readonly<Record<string, string>> = {
  byIds: 'text[]',
  byState: 'int, float8, bigint, int',
  completed: 'int, float8, bigint, int',
  inLine: 'int, int, bigint, int',
  heads: 'bigint, float8, bigint, int',
  gatesOfHeads: 'bigint, float8, bigint, int',
  inPlace: 'bigint, float8, bigint, int, boolean',
  parentsOf: 'text[]',
  running: 'bigint[]',
  parentsOfRunning: 'bigint[]',
  linksTo: 'text[]',
  linksToRunning: 'bigint[]',
  linksBetween: 'text[], text[]',
}

export const plannedFunction = `CREATE OR REPLACE FUNCTION {schema}.desk_{name}_{set}({types})
RETURNS SETOF {schema}.{gives}
LANGUAGE plpgsql
{steady}
{nested}
AS $$ BEGIN RETURN QUERY {statement}; END $$`

const shelvedAt = `CASE f.state WHEN 6 THEN j.finished_at WHEN 7 THEN j.finished_at
  WHEN 5 THEN coalesce(j.finished_at, (SELECT d.finished_at FROM {schema}.done d WHERE d.last >= j.seq ORDER BY d.last LIMIT 1))
  WHEN 4 THEN coalesce(nullif(j.rank, 'Infinity'), j.created_at) ELSE j.rank END`

/** What the bodies in select.sql become, and what differs in them. */
export const lists: Readonly<Record<string, { readonly body: string; readonly [part: string]: string }>> = {
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
export const budgets = { jobs: '5000', runs: '50000', streams: '1000' }

export const listFunction = `CREATE OR REPLACE FUNCTION {schema}.list_{name}_{set}(f {schema}.wanted)
RETURNS SETOF {schema}.listed
LANGUAGE plpgsql STABLE
{steady}
{nested}
AS $$ {body} $$`

/** Another one for any change of their texts. */
export const functionSet = createHash('sha256')
  .update(
    JSON.stringify([
      functions,
      settings,
      load,
      planned,
      plannedFunction,
      select,
      lists,
      budgets,
      listFunction,
    ]),
  )
  .digest('hex')
  .slice(0, 8)

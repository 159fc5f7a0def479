/**
 * What runs in the server. All functions that one version of Millrace calls are a set, and have the name of the set in
 * theirs, so that those of an older version stand beside them while its workers live; see ADR 21.
 */
import { createHash } from 'node:crypto'
import { done, enqueue, exchange, insert, kind, load, prune, settle, take } from './sql.generated.js'

export const functions = [kind, insert, enqueue, take, settle, exchange, done, prune]

/** Statements of load.sql that the server plans once and not each time, and what they take. */
export const planned: Readonly<Record<string, string>> = {
  byIds: 'text[]',
  byState: 'int, float8, bigint, int',
  completed: 'int, float8, bigint, int',
  inLine: 'int, int, bigint, int',
  inPlace: 'int, float8, bigint, int',
  parentsOf: 'text[]',
  running: 'bigint[]',
  parentsOfRunning: 'bigint[]',
  linksTo: 'text[]',
  linksToRunning: 'bigint[]',
  linksBetween: 'text[], text[]',
}

/** Plans must not depend on what the tables held when they were made. */
export const plannedFunction = `CREATE OR REPLACE FUNCTION {schema}.desk_{name}_{set}({types})
RETURNS SETOF {schema}.{gives}
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$ BEGIN RETURN QUERY {statement}; END $$`

/** Another one for any change of their texts. */
export const functionSet = createHash('sha256')
  .update(JSON.stringify([functions, load, planned, plannedFunction]))
  .digest('hex')
  .slice(0, 8)

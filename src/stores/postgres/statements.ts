import { bind, type Value } from './literal.js'
import { lockKey, quote } from './schema.js'
import { load, select } from './sql.generated.js'

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
      const [own = '', scan = ''] = name.split('/')
      const source = this.#source[own]
      if (source === undefined) throw new Error(`there is no statement ${name}`)
      text = this.#filled(source.replace('{scan}', `{${scan}}`))
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
  return new Statements({ ...load, ...select }, schema, { lock: '', skip: '', lockJob: '' })
}

const locking = { lock: 'FOR UPDATE', skip: 'FOR UPDATE SKIP LOCKED', lockJob: 'FOR UPDATE OF j' }

/** What reads jobs at the desk, and what it takes: functions of the server, which plans them once and not each time. */
const planned: Readonly<Record<string, string>> = {
  linksTo: 'text[]',
  linksToRunning: 'bigint[]',
  linksBetween: 'text[], text[]',
  byIds: 'text[]',
  byState: 'int, float8, bigint, int',
  completed: 'int, float8, bigint, int',
  inLine: 'int, int, bigint, int',
  inPlace: 'int, float8, bigint, int',
  parentsOf: 'text[]',
  running: 'bigint[]',
  parentsOfRunning: 'bigint[]',
}

/** For the desk. */
export function loading(schema: string): Statements {
  const calls = Object.entries(planned).map(([name, types]) => {
    const values = types.split(', ').map((type, i) => `$${i + 1}::${type}`)
    return [name, `SELECT * FROM {schema}.${functionOf(name)}(${values.join(', ')})`]
  })
  return new Statements({ ...load, ...select, ...Object.fromEntries(calls) }, schema, locking)
}

/** Plans must not depend on what the tables held when they were made. */
export function deskFunctions(schema: string): string[] {
  const statements = new Statements(load, schema, locking)
  return Object.entries(planned).map(
    ([name, types]) => `CREATE OR REPLACE FUNCTION ${quote(schema)}.${functionOf(name)}(${types})
RETURNS SETOF ${quote(schema)}.${name.startsWith('links') ? 'link' : 'loaded_job'}
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

function functionOf(name: string): string {
  return `desk_${name.toLowerCase()}`
}

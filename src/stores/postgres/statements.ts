import type { JobState } from '../../core/job.js'
import { bind, type Value } from '../../databases/postgres/literal.js'
import { budgets, listFunction, lists, planned, plannedFunction } from './functions.js'
import { partsOf } from './in-schema.js'
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
      .map((name, i) => `SELECT ${i} AS scan, s.* FROM {schema}.list_${name}_{set}(${wanted}) s`)
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
    this.#parts = { ...partsOf(schema), also: '', ...parts }
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

/** For whoever only looks. Where the desk locks rows, which also keeps the server from changing the order of a join. */
export function looking(schema: string): Statements {
  return new Statements({ ...load, ...selects }, schema, { lock: 'OFFSET 0', skip: '', lockJob: '' })
}

const locking = { lock: 'FOR UPDATE', skip: 'FOR UPDATE SKIP LOCKED', lockJob: 'FOR UPDATE OF j' }

/** For the desk. */
export function loading(schema: string): Statements {
  const calls = Object.entries(planned).map(([name, types]) => {
    const values = types.split(', ').map((type, i) => `$${i + 1}::${type}`)
    return [name, `SELECT * FROM {schema}.desk_${name.toLowerCase()}_{set}(${values.join(', ')})`]
  })
  return new Statements({ ...load, ...selects, ...Object.fromEntries(calls) }, schema, locking)
}

/** What they answer, where that is not jobs. */
const gives: Readonly<Record<string, string>> = {
  linksTo: 'link',
  linksToRunning: 'link',
  linksBetween: 'link',
  heads: 'packed_heads',
  gatesOfHeads: 'gate',
}

export function deskFunctions(schema: string): string[] {
  const statements = new Statements(load, schema, locking)
  return Object.entries(planned).map(([name, types]) => {
    const parts = {
      ...partsOf(schema),
      name: name.toLowerCase(),
      types,
      gives: gives[name] ?? 'loaded_job',
      statement: statements.text(name),
    }
    return plannedFunction.replace(/\{(\w+)\}/g, (_, part: keyof typeof parts) => parts[part])
  })
}

export function listFunctions(schema: string): string[] {
  return Object.entries(lists).map(([name, { body, ...own }]) => {
    const parts = {
      ...partsOf(schema),
      name,
      body: new Statements(select, schema, { ...own, ...budgets }).text(body),
    }
    return listFunction.replace(/\{(\w+)\}/g, (_, part: keyof typeof parts) => parts[part])
  })
}

import { planned, plannedFunction } from './functions.js'
import { bind, type Value } from './literal.js'
import { partsOf } from './schema.js'
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
    this.#parts = { ...partsOf(schema), also: '', ...parts }
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

/** For the desk. */
export function loading(schema: string): Statements {
  const calls = Object.entries(planned).map(([name, types]) => {
    const values = types.split(', ').map((type, i) => `$${i + 1}::${type}`)
    return [name, `SELECT * FROM {schema}.desk_${name.toLowerCase()}_{set}(${values.join(', ')})`]
  })
  return new Statements({ ...load, ...select, ...Object.fromEntries(calls) }, schema, locking)
}

export function deskFunctions(schema: string): string[] {
  const statements = new Statements(load, schema, locking)
  return Object.entries(planned).map(([name, types]) => {
    const gives = name.startsWith('links') ? 'link' : 'loaded_job'
    const parts = {
      ...partsOf(schema),
      name: name.toLowerCase(),
      types,
      gives,
      statement: statements.text(name),
    }
    return plannedFunction.replace(/\{(\w+)\}/g, (_, part: keyof typeof parts) => parts[part])
  })
}

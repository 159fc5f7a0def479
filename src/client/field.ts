import type { AnyJob } from '../core/definition.js'
import { compileField, type FieldFilter } from '../core/search.js'

/** Looks for marks where the definition that is asked for makes them, unless told. */
export function fieldFilter(
  raw: FieldFilter | undefined,
  name: string | undefined,
  jobs: ReadonlyMap<string, AnyJob>,
): FieldFilter | undefined {
  const field = compileField(raw)
  if (field === undefined || field.indexed !== undefined || name === undefined) return field
  return { ...field, indexed: jobs.get(name)?.search?.includes(field.path) === true }
}

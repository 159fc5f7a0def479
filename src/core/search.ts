/**
 * Finding jobs by a field of their input. Any field can be asked for; then inputs are looked at, one after the other. Fields that
 * a definition names in `search` are taken from the input when the job is enqueued: each with its value makes a mark, which
 * a store keeps as it keeps tags.
 */
import { bounds } from './bounds.js'
import { invalid, noUnknownIn } from './options.js'

export type FieldValue = string | number | boolean | null

/** A field of the input, and what it is to be. */
export interface FieldFilter {
  /** Names of properties, separated by dots, such as `order.id`. They lead through objects, not through arrays. */
  readonly path: string
  readonly value: FieldValue
  /**
   * Only jobs that were enqueued while `search` of their definition named the field, which are found at once. Otherwise
   * the inputs of all jobs that match the rest of the filter are looked at, a bounded number per page: slow where there
   * are many. @default whether `search` of the definition named by the filter has the field
   */
  readonly indexed?: boolean | undefined
}

/** Fields that a definition's jobs are found by. */
export function compileSearch(raw: readonly string[] | undefined): readonly string[] | undefined {
  if (raw === undefined) return undefined
  if (!Array.isArray(raw) || raw.length > bounds.search)
    throw invalid('search', raw, `an array of at most ${bounds.search} fields of the input`, bounds.search)
  raw.forEach((path, i) => {
    checkPath(path, `search[${i}]`)
  })
  return raw.length === 0 ? undefined : [...new Set(raw)]
}

export function compileField(raw: FieldFilter | undefined): FieldFilter | undefined {
  if (raw === undefined) return undefined
  noUnknownIn('field', raw, ['path', 'value', 'indexed'])
  checkPath(raw.path, 'field.path')
  if (!isFieldValue(raw.value))
    throw invalid(
      'field.value',
      raw.value,
      `a text of at most ${bounds.searchText} characters, a finite number, true, false or null`,
      bounds.searchText,
    )
  if (raw.indexed !== undefined && typeof raw.indexed !== 'boolean')
    throw invalid('field.indexed', raw.indexed, 'true or false')
  return raw
}

/** No numbers: what looks like an index would lead into arrays in one store and not in another. */
const pathPattern = /^[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)*$/

function checkPath(path: string, field: string): void {
  if (typeof path !== 'string' || path.length > bounds.searchPath || !pathPattern.test(path))
    throw invalid(
      field,
      path,
      `names of properties, separated by dots, such as 'order.id', of at most ${bounds.searchPath} letters, digits, '_', '-' or '$', none starting with a digit or '-'`,
      bounds.searchPath,
    )
}

function isFieldValue(value: unknown): value is FieldValue {
  if (typeof value === 'string') return value.length <= bounds.searchText
  return value === null || typeof value === 'boolean' || isPlainNumber(value)
}

/** -0 is no plain JSON; see codec.ts. */
function isPlainNumber(value: unknown): boolean {
  return Number.isFinite(value) && !Object.is(value, -0)
}

/** Unlike all tags. */
export function markOf({ path, value }: FieldFilter): string {
  return `$${path}=${JSON.stringify(value)}`
}

/** Fields that are not there, or are neither text nor number, true, false or null, give none. */
export function marksOf(paths: readonly string[] | undefined, input: unknown): readonly string[] | undefined {
  if (paths === undefined) return undefined
  const marks = paths.flatMap((path) => {
    const value = fieldOf(input, path)
    return isFieldValue(value) ? [markOf({ path, value })] : []
  })
  return marks.length === 0 ? undefined : marks
}

export function hasField(
  { input, search }: { readonly input: string; readonly search: readonly string[] | undefined },
  field: FieldFilter,
): boolean {
  if (field.indexed === true) return search?.includes(markOf(field)) === true
  // Most inputs need not be read.
  if (!input.includes(field.path.slice(field.path.lastIndexOf('.') + 1))) return false
  try {
    return fieldOf(JSON.parse(input), field.path) === field.value
  } catch {
    return false // a codec of the user's
  }
}

function fieldOf(input: unknown, path: string): unknown {
  let value = input
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    if (!Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** A value as it is written into a statement. Several statements go in one message only if they have no parameters. */
export type Value = string | number | boolean | null | readonly string[] | readonly (number | null)[] | Json

/** Goes as one JSON text. */
export class Json {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

/** Puts values in the places of $1, $2 and so on. */
export function bind(text: string, values: readonly Value[] = []): string {
  return text.replace(/\$(\d+)/g, (_, number: string) => literal(values[Number(number) - 1] as Value))
}

function literal(value: Value): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'boolean') return value ? 'true' : 'false'
  if (typeof value === 'number') return Number.isFinite(value) ? `${value}` : `'${value}'`
  if (value instanceof Json) return quote(jsonText(value.value))
  return quote(`{${value.map(element).join(',')}}`)
}

/** Of an array; far cheaper to parse than as an expression of its own. */
function element(value: string | number | null): string {
  if (value === null) return 'NULL'
  return typeof value === 'number' ? `${value}` : `"${value.replace(/["\\]/g, '\\$&')}"`
}

/** JSON has no infinity, but the server reads one from a text. */
function jsonText(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'number' && !Number.isFinite(item) ? String(item) : item,
  )
}

/**
 * Right whatever the server's standard_conforming_strings says. No stored text has a NUL, which would end the whole
 * message: something else that none has stands for it, so that whoever looks for such a text finds nothing.
 */
function quote(text: string): string {
  const doubled = text.replaceAll('\0', '\uFFFD').replaceAll("'", "''")
  return text.includes('\\') ? ` E'${doubled.replaceAll('\\', '\\\\')}'` : `'${doubled}'`
}

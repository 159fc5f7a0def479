/** Damaged text in a row must not keep the others from being read or run. */
export function parse<T>(text: string | null): T | undefined {
  if (text === null) return undefined
  try {
    return JSON.parse(text) as T
  } catch {
    return undefined
  }
}

/** A list as it is stored. */
export function listColumn(list: readonly string[] | null | undefined): string | null {
  return list ? JSON.stringify(list) : null
}

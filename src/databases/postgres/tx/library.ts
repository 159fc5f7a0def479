/** A statement with text parameters, $1 and so on, over whatever library; its rows. */
export type Query = (text: string, values: readonly string[]) => Promise<readonly Record<string, unknown>[]>

/**
 * How to speak inside a transaction of one library. Known by its shape: the caller's copy of the library is not ours to
 * import, and nobody needs the others.
 */
export interface Library<T> {
  /** What is accepted, as it is called there. */
  readonly accepts: string
  /** Anything of this library, transaction or not. */
  isOurs(tx: object): tx is T & object
  /** What it is instead of a transaction, as far as can be told; undefined when it may be one. */
  notOne(tx: T): string | undefined
  query(tx: T): Query
}

export function has(tx: object, ...methods: string[]): boolean {
  return methods.every((name) => typeof (tx as Record<string, unknown>)[name] === 'function')
}

/** Some libraries answer with the rows, others with a result that has them. */
export function rowsOf(answer: unknown): readonly Record<string, unknown>[] {
  const rows = Array.isArray(answer) ? answer : (answer as { rows?: unknown } | undefined)?.rows
  return (rows ?? []) as Record<string, unknown>[]
}

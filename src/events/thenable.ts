/** What has to be waited for: a promise, or what becomes one, such as a query of Drizzle, Knex or Prisma, which runs only then. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  const holds = (typeof value === 'object' && value !== null) || typeof value === 'function'
  return holds && typeof (value as { readonly then?: unknown }).then === 'function'
}

/** It will not be waited for. A query is not run for that. */
export function abandon(value: PromiseLike<unknown>): void {
  if (value instanceof Promise) value.catch(() => {})
}

import { MillraceError } from '../core/errors.js'
import type { Handler } from '../core/handler.js'

/** The function that a module exports under this name, or HANDLER_MISSING. Node loads a module once. */
export async function loadHandler(module: {
  readonly url: string
  readonly export: string
}): Promise<Handler<unknown, unknown>> {
  const { url, export: name } = module
  const exports = await load(url, name)
  const handler = exports[name]
  if (typeof handler === 'function') return handler as Handler<unknown, unknown>
  const found = Object.keys(exports).join(', ') || 'nothing'
  throw missing(`the module ${url} exports no function '${name}'; it exports ${found}`, name)
}

async function load(url: string, name: string): Promise<Record<string, unknown>> {
  try {
    return (await import(url)) as Record<string, unknown>
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw missing(`the module ${url} with the handler '${name}' cannot be loaded: ${why}`, name, error)
  }
}

function missing(message: string, field: string, cause?: unknown): MillraceError {
  return new MillraceError('HANDLER_MISSING', message, { field, ...(cause !== undefined && { cause }) })
}

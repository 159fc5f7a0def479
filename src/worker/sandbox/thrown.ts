import { bounds } from '../../core/bounds.js'
import { jsonCodec } from '../../core/codec.js'
import { type ErrorCode, isMillraceError, MillraceError } from '../../core/errors.js'
import { clean } from '../../core/text.js'

/** Whatever was thrown, as data that any channel carries. */
export type Thrown = ThrownError | ThrownValue

interface ThrownError {
  readonly millrace: boolean
  readonly name: string
  readonly message: string
  readonly stack: string
  readonly code: string | number | undefined
  /** Its own plain properties: `delay`, `field`, `status` and such, for those who classify errors. */
  readonly properties: Readonly<Record<string, Plain>>
  readonly cause: Thrown | undefined
}

interface ThrownValue {
  readonly value: string
}

type Plain = string | number | boolean | null

const mostCauses = 5
const mostProperties = 20

/** Never throws, and never gives more than a bounded amount: what is thrown may be hostile. */
export function pack(thrown: unknown, depth = 0): Thrown {
  try {
    return isErrorLike(thrown) ? packError(thrown, depth) : { value: packValue(thrown) }
  } catch {
    return { value: jsonCodec.encode('a value that cannot be read', 'error', bounds.failureText) }
  }
}

export function unpack(thrown: Thrown): unknown {
  if ('value' in thrown) return jsonCodec.decode(thrown.value)
  const { millrace, name, message, stack, code, properties, cause } = thrown
  const Type = builtIns.find((type) => type.name === name) ?? Error
  const error = millrace ? new MillraceError(code as ErrorCode, message) : new Type(message)
  Object.assign(error, properties)
  hide(error, 'name', name)
  hide(error, 'stack', stack)
  if (code !== undefined && !millrace) hide(error, 'code', code)
  if (cause !== undefined) hide(error, 'cause', unpack(cause))
  return error
}

/** So that `instanceof TypeError` means the same on both sides. */
const builtIns = [TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError] as const

function isErrorLike(thrown: unknown): thrown is Error & { code?: unknown } {
  if (thrown instanceof Error || isMillraceError(thrown)) return true
  // Errors of another realm, and DOMException.
  const { message, stack } = (thrown ?? {}) as Partial<Error>
  return typeof message === 'string' && typeof stack === 'string'
}

function packError(error: Error & { code?: unknown }, depth: number): ThrownError {
  const { code, cause } = error
  return {
    millrace: isMillraceError(error),
    name: clean(String(error.name), bounds.nameLength),
    message: clean(String(error.message), bounds.failureText),
    stack: clean(String(error.stack ?? ''), bounds.failureText),
    code: typeof code === 'number' || typeof code === 'string' ? code : undefined,
    properties: plainProperties(error),
    cause: cause === undefined || depth >= mostCauses ? undefined : pack(cause, depth + 1),
  }
}

function plainProperties(error: object): Record<string, Plain> {
  const plain: Record<string, Plain> = {}
  for (const [key, value] of Object.entries(error).slice(0, mostProperties)) {
    if (['name', 'message', 'stack', 'code', 'cause', '__proto__'].includes(key)) continue
    if (typeof value === 'string') plain[key] = clean(value, bounds.reasonText)
    else if (value === null || typeof value === 'boolean' || Number.isFinite(value))
      plain[key] = value as Plain
  }
  return plain
}

function packValue(thrown: unknown): string {
  const value = thrown === undefined || isText(thrown) ? String(thrown) : thrown
  try {
    return jsonCodec.encode(value, 'error', bounds.failureText)
  } catch {
    return jsonCodec.encode(clean(Object.prototype.toString.call(value), 100), 'error', bounds.failureText)
  }
}

/** Functions and symbols have a text, and nothing else that could cross. */
function isText(thrown: unknown): boolean {
  return typeof thrown === 'function' || typeof thrown === 'symbol'
}

/** As a property of an Error is: it does not show among the enumerable ones. */
function hide(error: object, key: string, value: unknown): void {
  Object.defineProperty(error, key, { value, writable: true, configurable: true, enumerable: false })
}

import { bounds } from './bounds.js'
import { MillraceError } from './errors.js'
import { utf8Length } from './text.js'

/** Turns inputs, results and progress into text and back. A codec keeps a value exactly or refuses it. */
export interface Codec {
  /** `what` names the value in errors: 'input', 'result' or 'progress'. */
  encode(value: unknown, what: string, most: number): string
  decode(text: string): unknown
}

/**
 * JSON that also keeps what JSON would change: bigint, Date, Map, Set, Uint8Array, undefined in arrays,
 * NaN, infinities and -0. Those travel as `{"$millrace":[type, data]}`; plain data stays plain JSON, so
 * that it can be searched, and takes no detour through a copy.
 */
export const jsonCodec: Codec = {
  encode(value, what, most) {
    const plain = inspect(value, what)
    const text = JSON.stringify(plain ? value : tag(value))
    const bytes = utf8Length(text, most)
    if (bytes > most) throw tooLarge(what, `${bytes} bytes`, `${most} bytes`)
    return text
  },
  decode(text) {
    const value: unknown = JSON.parse(text)
    return text.includes(mark) ? untag(value) : value
  },
}

const mark = '"$millrace"'
const tagKey = '$millrace'

/** Walks the value once: true when plain JSON keeps it, an error when nothing here can. */
function inspect(value: unknown, what: string): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return isPlainNumber(value)
    case 'object':
      if (value === null) return true
      return inspectObject(value, what, [], [])
    default:
      if (typeof value === 'bigint') return false
      throw notSerialisable(value, what, [])
  }
}

function inspectObject(value: object, what: string, path: (string | number)[], parents: object[]): boolean {
  if (parents.includes(value)) throw refuse(what, path, 'it contains itself')
  if (parents.length >= bounds.payloadDepth) {
    throw tooLarge(
      `${what} at ${show(path)}`,
      `deeper than ${bounds.payloadDepth} levels`,
      `${bounds.payloadDepth} levels`,
    )
  }
  parents.push(value)
  let plain = true
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      if (value[i] === undefined) plain = false
      else plain = inspectChild(value[i], i, what, path, parents) && plain
    }
  } else if (isRecord(value)) {
    for (const key of Object.keys(value)) {
      const child = (value as Record<string, unknown>)[key]
      if (key === tagKey) plain = false
      if (key === 'toJSON' && typeof child === 'function') throw notSerialisable(child, what, [...path, key])
      // A property that is undefined counts as absent, as in JSON and in TypeScript's optional properties.
      if (child !== undefined) plain = inspectChild(child, key, what, path, parents) && plain
    }
  } else {
    inspectSpecial(value, what, path, parents)
    plain = false
  }
  parents.pop()
  return plain
}

function inspectChild(
  child: unknown,
  key: string | number,
  what: string,
  path: (string | number)[],
  parents: object[],
): boolean {
  switch (typeof child) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return isPlainNumber(child)
    case 'bigint':
      return false
    case 'object': {
      if (child === null) return true
      path.push(key)
      const plain = inspectObject(child, what, path, parents)
      path.pop()
      return plain
    }
    default:
      throw notSerialisable(child, what, [...path, key])
  }
}

function inspectSpecial(value: object, what: string, path: (string | number)[], parents: object[]): void {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw refuse(what, path, 'it is an invalid Date')
  } else if (value instanceof Map) {
    for (const [key, item] of value) {
      inspectEntry(key, what, [...path, '(key)'], parents)
      inspectEntry(item, what, [...path, '(value)'], parents)
    }
  } else if (value instanceof Set) {
    for (const item of value) inspectEntry(item, what, [...path, '(item)'], parents)
  } else if (!(value instanceof Uint8Array)) {
    const name = value.constructor?.name || 'a class'
    throw refuse(what, path, `it is an instance of ${name}; pass plain data`)
  }
}

function inspectEntry(item: unknown, what: string, path: (string | number)[], parents: object[]): void {
  if (item === undefined) return
  if (typeof item === 'object' && item !== null) inspectObject(item, what, path, parents)
  else if (typeof item === 'function' || typeof item === 'symbol') throw notSerialisable(item, what, path)
}

function isPlainNumber(value: number): boolean {
  return Number.isFinite(value) && !Object.is(value, -0)
}

function isRecord(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null) return true
  // A plain object of another realm (a vm context, a test runner) has that realm's Object.prototype.
  return (
    Object.prototype.toString.call(value) === '[object Object]' && Object.getPrototypeOf(prototype) === null
  )
}

type Tagged = { [tagKey]: [type: string, data?: unknown] }

function tagged(type: string, data?: unknown): Tagged {
  return { [tagKey]: data === undefined ? [type] : [type, data] }
}

function tag(value: unknown): unknown {
  if (value === undefined) return tagged('undefined')
  if (typeof value === 'bigint') return tagged('bigint', value.toString())
  if (typeof value === 'number') return isPlainNumber(value) ? value : tagged('number', numberName(value))
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Array.from(value, tag)
  if (value instanceof Date) return tagged('date', value.toISOString())
  if (value instanceof Map)
    return tagged(
      'map',
      Array.from(value, ([key, item]) => [tag(key), tag(item)]),
    )
  if (value instanceof Set) return tagged('set', Array.from(value, tag))
  if (value instanceof Uint8Array) return tagged('bytes', toHex(value))
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  if (entries.some(([key]) => key === tagKey)) {
    return tagged(
      'object',
      entries.map(([key, item]) => [key, tag(item)]),
    )
  }
  return record(entries, tag)
}

function untag(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(untag)
  if (Object.hasOwn(value, tagKey)) return untagged((value as Tagged)[tagKey])
  return record(Object.entries(value), untag)
}

function untagged([type, data]: Tagged[typeof tagKey]): unknown {
  switch (type) {
    case 'undefined':
      return undefined
    case 'bigint':
      return BigInt(data as string)
    case 'number':
      return data === '-0' ? -0 : Number(data)
    case 'date':
      return new Date(data as string)
    case 'map':
      return new Map((data as [unknown, unknown][]).map(([key, item]) => [untag(key), untag(item)]))
    case 'set':
      return new Set((data as unknown[]).map(untag))
    case 'bytes':
      return fromHex(data as string)
    case 'object':
      return record(data as [string, unknown][], untag)
    default:
      throw new MillraceError('STORE_CORRUPT', `stored data has the unknown type ${JSON.stringify(type)}`)
  }
}

/** Own properties only, so that a `__proto__` key stays data. */
function record(entries: [string, unknown][], map: (value: unknown) => unknown): object {
  return Object.fromEntries(entries.map(([key, item]) => [key, map(item)]))
}

function numberName(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

function toHex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0')
  return text
}

function fromHex(text: string): Uint8Array {
  return Uint8Array.from({ length: text.length / 2 }, (_, i) =>
    Number.parseInt(text.slice(i * 2, i * 2 + 2), 16),
  )
}

function show(path: readonly (string | number)[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`
    return /^[\w$]+$/.test(key) || key.startsWith('(') ? `${text}.${key}` : `${text}[${JSON.stringify(key)}]`
  }, '$')
}

function notSerialisable(value: unknown, what: string, path: readonly (string | number)[]): MillraceError {
  if (value === undefined) return refuse(what, path, 'it is undefined; pass null where there is nothing')
  return refuse(what, path, `it is a ${typeof value}`)
}

function refuse(what: string, path: readonly (string | number)[], why: string): MillraceError {
  const field = show(path)
  return new MillraceError('PAYLOAD_NOT_SERIALISABLE', `${what} cannot be stored: at ${field} ${why}`, {
    field,
  })
}

function tooLarge(what: string, actual: string, limit: string): MillraceError {
  return new MillraceError(
    'PAYLOAD_TOO_LARGE',
    `${what} is too large: ${actual}, the limit is ${limit}; store the data elsewhere and pass a reference`,
    { field: what, value: actual, limit },
  )
}

import { bounds } from './bounds.js'
import type { Failure, RootFailure } from './job.js'
import { clean } from './text.js'

/** Turns whatever a handler threw into bounded, clean text. Never throws: hostile getters and proxies included. */
export function describeFailure(job: string, thrown: unknown): Failure {
  const name = clean(read(thrown, 'name') ?? typeName(thrown), bounds.nameLength)
  const message = clean(read(thrown, 'message') ?? asText(thrown), bounds.failureText / 2)
  const stack = read(thrown, 'stack')
  const code = read(thrown, 'code')
  const root = rootOf(thrown, code)
  return {
    name,
    message,
    stack:
      stack === undefined
        ? undefined
        : clean(root ? stack : withCauses(stack, thrown), bounds.failureText - message.length),
    code: code === undefined ? undefined : clean(code, bounds.nameLength),
    // Who died of the same thing, however far from it, is one group; apart from it, because retrying them is no use.
    cause: root === undefined ? fingerprint(job, name, message, stack) : hash(`${code}\n${root.cause}`),
    ...(root !== undefined && { child: clean(read(thrown, 'value') ?? root.id, bounds.idLength), root }),
  }
}

/** What `childFailed` says. */
function rootOf(thrown: unknown, code: string | undefined): RootFailure | undefined {
  if (code !== 'CHILD_FAILED' && code !== 'COMPENSATED') return undefined
  const root = property(thrown, 'cause')
  const id = read(root, 'id')
  const cause = read(root, 'cause')
  if (id === undefined || cause === undefined) return undefined
  return {
    id: clean(id, bounds.idLength),
    name: clean(read(root, 'name') ?? '', bounds.nameLength),
    message: clean(read(root, 'message') ?? '', bounds.attemptText / 2),
    cause: clean(cause, bounds.nameLength * 2),
  }
}

/** The form that is kept for each attempt; the job's last failure is kept whole. */
export function shortFailure(failure: Failure): Failure {
  return { ...failure, message: clean(failure.message, bounds.attemptText / 2), stack: cut(failure.stack) }
}

function cut(stack: string | undefined): string | undefined {
  return stack === undefined ? undefined : clean(stack, bounds.attemptText / 2)
}

/**
 * The same bug gives the same fingerprint: ids, numbers, quoted values and addresses are taken out of the
 * message, and the first frame of the stack joins without its line number.
 */
function fingerprint(job: string, name: string, message: string, stack?: string): string {
  const normal = message
    .slice(0, 500)
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '#')
    .replace(/(["'`]).*?\1/g, '#')
    .replace(/\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b/gi, '#')
    .replace(/\s+/g, ' ')
  return hash(`${job}\n${name}\n${normal}\n${topFrame(stack)}`)
}

function topFrame(stack: string | undefined): string {
  const line = stack?.split('\n', 20).find((text) => /^\s+at /.test(text)) ?? ''
  return line.trim().replace(/:\d+(?::\d+)?\)?$/, '')
}

/** FNV-1a over UTF-16 units, twice with different seeds: 16 hex digits, no crypto needed. */
function hash(text: string): string {
  let a = 0x811c9dc5
  let b = 0x01234567
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x01000193) ^ (a >>> 13)
  }
  return hex(a) + hex(b)
}

function hex(n: number): string {
  return (n >>> 0).toString(16).padStart(8, '0')
}

function withCauses(stack: string, thrown: unknown): string {
  let text = stack
  const seen = new Set<unknown>([thrown])
  for (let cause = property(thrown, 'cause'), depth = 0; cause !== undefined && depth < 5; depth++) {
    if (seen.has(cause)) return `${text}\ncaused by: (cycle)`
    seen.add(cause)
    text += `\ncaused by: ${read(cause, 'stack') ?? asText(cause)}`
    cause = property(cause, 'cause')
  }
  return text
}

function property(thrown: unknown, key: string): unknown {
  try {
    return typeof thrown === 'object' && thrown !== null
      ? (thrown as Record<string, unknown>)[key]
      : undefined
  } catch {
    return undefined
  }
}

function read(thrown: unknown, key: string): string | undefined {
  const value = property(thrown, key)
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

function typeName(thrown: unknown): string {
  return thrown === null ? 'null' : typeof thrown
}

function asText(thrown: unknown): string {
  try {
    const text = typeof thrown === 'object' ? JSON.stringify(thrown) : String(thrown)
    return `threw ${text}`
  } catch {
    return 'threw a value that has no text'
  }
}

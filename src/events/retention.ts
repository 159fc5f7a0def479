import { type Duration, milliseconds } from '../core/duration.js'
import type { MillraceError } from '../core/errors.js'
import { invalid, noUnknownIn } from '../core/options.js'
import type { ArchivedEvent } from './catalogue.js'

/**
 * What becomes of old events of a category, the part of a stream's name before its first '-'. Without a policy they are
 * kept for ever: a log that is complete can be replayed into any read model that somebody thinks of later.
 */
export type RetentionPolicy =
  /** Removes events older than this. Their streams can be loaded from a snapshot only. */
  | { readonly delete: Duration; readonly archive?: undefined; readonly compact?: undefined }
  /**
   * Gives events older than this to `to`, and removes them when it has resolved. Those that it was given when the process
   * died, or when it took too long, come again; their ids tell.
   */
  | {
      readonly archive: Duration
      readonly to: Archive
      /** How long one call of `to` may take. Then its signal aborts, and nothing is removed. @default '1m' */
      readonly timeout?: Duration
      readonly delete?: undefined
      readonly compact?: undefined
    }
  /**
   * Keeps the latest event of each stream and removes the others once they are older than this: for streams whose latest
   * event says all, such as a price. How it came to be so is lost, and so is every replay.
   */
  | { readonly compact: Duration; readonly delete?: undefined; readonly archive?: undefined }

/** Keeps these events elsewhere, as they are stored: also those of types and versions that this process does not know. */
export type Archive = (events: readonly ArchivedEvent[], context: ArchiveContext) => unknown

export interface ArchiveContext {
  /** Aborts when it takes too long, and at the end of a shutdown's grace. */
  readonly signal: AbortSignal
}

export type RetentionOptions = Readonly<Record<string, RetentionPolicy>>

export interface CompiledPolicy {
  readonly do: 'delete' | 'archive' | 'compact'
  readonly age: number
  readonly to: Archive | undefined
  /** Of `to`. */
  readonly timeout: number
}

/** By category. */
export type CompiledRetention = ReadonlyMap<string, CompiledPolicy>

export function compileRetention(raw: RetentionOptions): CompiledRetention {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    throw invalid('retention', raw, 'policies by category')
  return new Map(
    Object.entries(raw).map(([category, policy]) => [
      checkedCategory(category),
      compilePolicy(policy, `retention.${category}`),
    ]),
  )
}

function compilePolicy(raw: RetentionPolicy, field: string): CompiledPolicy {
  noUnknownIn(field, raw, ['delete', 'archive', 'compact', 'to', 'timeout'])
  const given = (['delete', 'archive', 'compact'] as const).filter((kind) => raw[kind] !== undefined)
  const [kind] = given
  if (kind === undefined || given.length > 1)
    throw invalid(field, given.join(' and ') || 'nothing', 'one of delete, archive and compact')
  const to: unknown = 'to' in raw ? raw.to : undefined
  if (kind === 'archive' && typeof to !== 'function')
    throw invalid(`${field}.to`, to, 'a function that takes the events')
  if (kind !== 'archive' && to !== undefined) throw invalid(`${field}.to`, to, 'none: only archive has it')
  const timeout = 'timeout' in raw ? raw.timeout : undefined
  if (kind !== 'archive' && timeout !== undefined)
    throw invalid(`${field}.timeout`, timeout, 'none: only archive has it')
  return {
    do: kind,
    age: milliseconds(raw[kind] as Duration, `${field}.${kind}`),
    to: to as CompiledPolicy['to'],
    timeout: milliseconds(timeout ?? '1m', `${field}.timeout`),
  }
}

function checkedCategory(category: string): string | never {
  if (category === '' || category.includes('-') || category.startsWith('$')) throw notCategory(category)
  return category
}

function notCategory(category: string): MillraceError {
  return invalid('retention', category, "categories: what a stream's name has before its first '-'")
}

import { type Duration, milliseconds } from '../core/duration.js'
import type { MillraceError } from '../core/errors.js'
import { invalid, noUnknownIn } from '../core/options.js'
import type { RecordedEvent } from './define-event.js'

/**
 * What becomes of old events of a category, the part of a stream's name before its first '-'. Without a policy they are
 * kept for ever: a log that is complete can be replayed into any read model that somebody thinks of later.
 */
export type RetentionPolicy =
  /** Removes events older than this. Their streams can be loaded from a snapshot only. */
  | { readonly delete: Duration; readonly archive?: undefined; readonly compact?: undefined }
  /**
   * Gives events older than this to `to`, and removes them when it has resolved. Those that it was given when the process
   * died come again; their ids tell.
   */
  | {
      readonly archive: Duration
      readonly to: (events: readonly RecordedEvent[]) => unknown
      readonly delete?: undefined
      readonly compact?: undefined
    }
  /**
   * Keeps the latest event of each stream and removes the others once they are older than this: for streams whose latest
   * event says all, such as a price. How it came to be so is lost, and so is every replay.
   */
  | { readonly compact: Duration; readonly delete?: undefined; readonly archive?: undefined }

export type RetentionOptions = Readonly<Record<string, RetentionPolicy>>

export interface CompiledPolicy {
  readonly do: 'delete' | 'archive' | 'compact'
  readonly age: number
  readonly to: ((events: readonly RecordedEvent[]) => unknown) | undefined
}

/** By category. */
export type CompiledRetention = ReadonlyMap<string, CompiledPolicy>

export function compileRetention(raw: RetentionOptions): CompiledRetention {
  return new Map(
    Object.entries(raw).map(([category, policy]) => [
      checkedCategory(category),
      compilePolicy(policy, `retention.${category}`),
    ]),
  )
}

function compilePolicy(raw: RetentionPolicy, field: string): CompiledPolicy {
  noUnknownIn(field, raw, ['delete', 'archive', 'compact', 'to'])
  const given = (['delete', 'archive', 'compact'] as const).filter((kind) => raw[kind] !== undefined)
  const [kind] = given
  if (kind === undefined || given.length > 1)
    throw invalid(field, given.join(' and ') || 'nothing', 'one of delete, archive and compact')
  const to: unknown = 'to' in raw ? raw.to : undefined
  if (kind === 'archive' && typeof to !== 'function')
    throw invalid(`${field}.to`, to, 'a function that takes the events')
  if (kind !== 'archive' && to !== undefined) throw invalid(`${field}.to`, to, 'none: only archive has it')
  return {
    do: kind,
    age: milliseconds(raw[kind] as Duration, `${field}.${kind}`),
    to: to as CompiledPolicy['to'],
  }
}

function checkedCategory(category: string): string | never {
  if (category === '' || category.includes('-') || category.startsWith('$')) throw notCategory(category)
  return category
}

function notCategory(category: string): MillraceError {
  return invalid('retention', category, "categories: what a stream's name has before its first '-'")
}

import { bounds } from '../core/bounds.js'
import { MillraceError } from '../core/errors.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import { newId } from '../system/ids.js'
import type { ArrivingEvent, EventDraft } from './define-event.js'
import { WrongVersionError } from './errors.js'
import { runInline, runInlineNow, wantedInline } from './inline.js'
import type { Append, AppendResult, Expected } from './log.js'
import type { EventRuntime } from './runtime.js'
import { streamName } from './stream-name.js'
import { abandon, isThenable } from './thenable.js'

export interface AppendOptions {
  /**
   * What the stream has to be like: at this version, `'none'` when it must not be there, `'exists'` when it must, or
   * `'any'`. Of appends that expect the same version, one wins; the others reject with WRONG_VERSION.
   * @default 'any'
   */
  readonly expected?: Expected
  /** Kept with each event, never interpreted: who caused it, and the like. */
  readonly meta?: unknown
  /** A UUID: an append with an id that is there already answers as the first one did. @default a new one */
  readonly id?: string
  /**
   * The caller's own transaction: the events exist if and only if it commits. For SQLite a better-sqlite3 database
   * inside a transaction; the call then throws at once, so that an error rolls it back. For PostgreSQL a transaction of
   * pg, postgres, Drizzle, Kysely, Knex, Prisma or TypeORM; await the call before the commit. A job's `await tx()` is one.
   */
  readonly tx?: unknown
}

export interface Appended {
  /** The stream's, by the last of these events. */
  readonly version: number
  /** Of the last of them. */
  readonly position: number
  readonly at: Date
  /** It had been appended before, under the same `id`. */
  readonly repeated: boolean
}

/** What was appended, now or before under the same id, as handlers see it. */
export interface Written {
  readonly appended: Appended
  readonly events: readonly ArrivingEvent[]
}

/**
 * Adds events to a stream, with what inline projections make of them. In a caller's transaction on a synchronous driver
 * all of it has happened when this returns, and what is wrong is thrown.
 */
export function append(
  runtime: EventRuntime,
  stream: string,
  drafts: readonly EventDraft[],
  options: AppendOptions = {},
): Written | Promise<Written> {
  return options?.tx === undefined
    ? appendAlone(runtime, stream, drafts, options)
    : appendIn(runtime, options.tx, stream, drafts, options)
}

async function appendAlone(
  runtime: EventRuntime,
  stream: string,
  drafts: readonly EventDraft[],
  options: AppendOptions,
): Promise<Written> {
  const data = await Promise.all(checkedDrafts(runtime, drafts))
  const request = requestOf(runtime, stream, drafts, data, options)
  await runtime.ready()
  if (!wantedInline(runtime, request)) {
    const [result] = await runtime.log.append([request])
    return written(runtime, request, data, result)
  }
  const transaction = await runtime.log.begin()
  try {
    const [result] = await runtime.log.append([request], transaction.tx)
    const done = written(runtime, request, data, result)
    await runInline(runtime, done, transaction.tx)
    await transaction.commit()
    return done
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}

function appendIn(
  runtime: EventRuntime,
  tx: unknown,
  stream: string,
  drafts: readonly EventDraft[],
  options: AppendOptions,
): Written | Promise<Written> {
  if (!runtime.isReady)
    throw new MillraceError(
      'STORE_REFUSED',
      'the event log is not open yet: await store.open() before appending in a transaction',
    )
  const data = checkedDrafts(runtime, drafts)
  const late = data.findIndex(isThenable)
  if (late !== -1) {
    for (const one of data) if (isThenable(one)) abandon(one)
    throw new MillraceError(
      'INVALID_INPUT',
      `event '${drafts[late]?.type}' has an asynchronous schema, which cannot be used in a transaction`,
    )
  }
  const request = requestOf(runtime, stream, drafts, data, options)
  const answer = runtime.log.append([request], tx)
  if (!isThenable(answer)) {
    const done = written(runtime, request, data, answer[0])
    runInlineNow(runtime, done, tx)
    return done
  }
  return Promise.resolve(answer).then(async ([result]) => {
    const done = written(runtime, request, data, result)
    await runInline(runtime, done, tx)
    return done
  })
}

function checkedDrafts({ catalogue }: EventRuntime, drafts: readonly EventDraft[]): unknown[] {
  if (!Array.isArray(drafts) || drafts.length === 0 || drafts.length > bounds.batch)
    throw invalid('events', drafts, `an array of 1 to ${bounds.batch} events`, bounds.batch)
  return drafts.map((draft, i) => catalogue.checked(draft, `events[${i}]`))
}

function requestOf(
  { catalogue }: EventRuntime,
  stream: string,
  drafts: readonly EventDraft[],
  checked: readonly unknown[],
  options: AppendOptions,
): Append {
  noUnknown(options, ['expected', 'meta', 'id', 'tx'], 'append')
  const id = options.id === undefined ? newId(Date.now()) : uuid(options.id)
  const meta = catalogue.encodeMeta(options.meta)
  const events = drafts.map((draft, i) =>
    catalogue.encode(draft, checked[i], meta, i === 0 ? id : newId(Date.now())),
  )
  const size = events.reduce((sum, { data }) => sum + data.length, 0)
  if (size > mostText)
    throw new MillraceError(
      'PAYLOAD_TOO_LARGE',
      `the ${events.length} events have ${size} characters in all, the limit is ${mostText}; append them in several calls`,
      { field: 'events', value: size, limit: mostText },
    )
  return { id, stream: streamName(stream), expected: expectation(options.expected), events }
}

/** Of one append. */
const mostText = 16 * bounds.payloadBytes

function expectation(expected: Expected = 'any'): Expected {
  if (typeof expected === 'number') return integer(expected, 'expected', 0, Number.MAX_SAFE_INTEGER)
  if (!['any', 'none', 'exists'].includes(expected))
    throw invalid('expected', expected, "a version, 'none', 'exists' or 'any'")
  return expected
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

function uuid(id: string): string {
  if (typeof id !== 'string' || !uuidPattern.test(id)) throw invalid('id', id, 'a UUID')
  return id.toLowerCase()
}

function written(
  { catalogue }: EventRuntime,
  { stream, expected, events }: Append,
  data: readonly unknown[],
  result: AppendResult | undefined,
): Written {
  if (result === undefined) throw new MillraceError('STORE_FAILED', 'the event log gave no answer')
  if (result.status === 'conflict') throw new WrongVersionError(stream, expected, result.version)
  const { version, position, repeated } = result
  const at = new Date(result.at)
  const arriving = events.map(({ id, type, meta }, i) => ({
    id,
    type,
    data: data[i],
    meta: catalogue.decodeMeta(meta),
    stream,
    version: version - events.length + 1 + i,
    at,
  }))
  return { appended: { version, position, at, repeated }, events: arriving }
}

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { parseWith } from '../core/definition.js'
import { type CompiledEvolution, compileEvolution } from '../core/evolution.js'
import { invalid, name, noUnknown } from '../core/options.js'

/** What happened, not appended yet: a definition makes it when it is called, `Deposited({ amount: 5 })`. */
export interface EventDraft<Type extends string = string, Data = unknown> {
  readonly type: Type
  readonly data: Data
}

/** What happened, as it is read. */
export interface RecordedEvent<Type extends string = string, Data = unknown> {
  readonly id: string
  readonly type: Type
  readonly data: Data
  /** What was given with it: who caused it, and the like. */
  readonly meta: unknown
  readonly stream: string
  /** Its place in the stream, from 1 on. */
  readonly version: number
  /** Its place in the log. */
  readonly position: number
  /** By the log's clock. */
  readonly at: Date
}

/** As an inline projection sees it: events that are being appended have no position yet. */
export type ArrivingEvent<Type extends string = string, Data = unknown> = Omit<
  RecordedEvent<Type, Data>,
  'position'
>

export interface EventOptions<
  Type extends string,
  Schema extends StandardSchemaV1 | undefined,
  Data = unknown,
> {
  /** As it is stored, such as `'deposited'`; it stays for as long as there are events of it. */
  readonly type: Type
  /**
   * Any Standard Schema (Zod, Valibot, ArkType …). Checked when an event is appended; what it gives is what is stored,
   * with the defaults of that day. What has happened is not checked again.
   */
  readonly data?: Schema
  /** Of the data's form: a whole number from 1 on, raised when it changes. @default none, which counts as 0 */
  readonly version?: number
  /** Makes data of an older form, with version `from`, data of this one. It is called each time the event is read. */
  readonly upgrade?: (data: unknown, from: number) => Data
}

/** A kind of event. Called with data it makes one, to append. */
export interface EventDefinition<Type extends string = string, Input = unknown, Data = Input> {
  (...data: undefined extends Input ? [data?: Input] : [data: Input]): EventDraft<Type, Input>
  readonly type: Type
  readonly schema: StandardSchemaV1<Input, Data> | undefined
  /** How old data becomes new data; undefined when it has neither `version` nor `upgrade`. */
  readonly evolution: CompiledEvolution | undefined
}

// Lists hold definitions of every type; variance of what they take allows no narrower type.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyEvent = EventDefinition<any, any, any>

/** What definitions make. */
export type DraftOf<E extends AnyEvent> =
  // biome-ignore lint/suspicious/noExplicitAny: what it gives does not matter here
  E extends EventDefinition<infer Type, infer Input, any> ? EventDraft<Type, Input> : never

/** Their events, as they are read. */
export type EventOf<E extends AnyEvent> =
  // biome-ignore lint/suspicious/noExplicitAny: what it takes does not matter here
  E extends EventDefinition<infer Type, any, infer Data> ? RecordedEvent<Type, Data> : never

/** Those of one type. */
export type EventOfType<E extends AnyEvent, Type> = EventOf<Extract<E, { readonly type: Type }>>

/** The same, while they are appended. */
export type ArrivingOf<E extends AnyEvent, Type> = Omit<EventOfType<E, Type>, 'position'>

/** A kind of event, by its type, with a schema for its data. */
export function defineEvent<const Type extends string, Schema extends StandardSchemaV1>(
  options: EventOptions<Type, Schema, StandardSchemaV1.InferOutput<Schema>> & { readonly data: Schema },
): EventDefinition<Type, StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>>
/** Without a schema: with data that nobody checks, `defineEvent<'closed', { by: string }>({ type: 'closed' })`, or none. */
export function defineEvent<const Type extends string, Data = undefined>(
  options: EventOptions<Type, undefined, Data> & { readonly data?: undefined },
): EventDefinition<Type, Data>
export function defineEvent(options: EventOptions<string, StandardSchemaV1 | undefined>): AnyEvent {
  noUnknown(options, ['type', 'data', 'version', 'upgrade'], 'defineEvent')
  const { data: schema } = options
  if (schema !== undefined && typeof schema['~standard']?.validate !== 'function')
    throw invalid('data', schema, 'a Standard Schema, such as a Zod, Valibot or ArkType schema')
  const type = name(options.type, 'type')
  const draft = (data?: unknown): EventDraft => ({ type, data })
  return Object.assign(draft, { type, schema, evolution: compileEvolution(options) })
}

export function checkEvents(events: readonly AnyEvent[], field: string): void {
  if (!Array.isArray(events)) throw invalid(field, events, 'an array of definitions made by defineEvent')
  events.forEach((event, i) => {
    if (typeof event !== 'function' || typeof event.type !== 'string')
      throw invalid(`${field}[${i}]`, event, 'a definition made by defineEvent')
    if (events.findIndex(({ type }) => type === event.type) !== i)
      throw invalid(`${field}[${i}]`, event.type, 'each type once')
  })
}

/** One handler for each of these events, and no other. */
export function checkHandlers(handlers: object, events: readonly AnyEvent[], field: string): void {
  const types = events.map(({ type }) => type)
  noUnknown(handlers, types, field, `${field}.`)
  for (const type of types) {
    const handler: unknown = (handlers as Record<string, unknown>)[type]
    if (typeof handler !== 'function') throw invalid(`${field}.${type}`, handler, 'a function')
  }
}

/** The data as it is stored; a promise when the schema is asynchronous. */
export function checkedData({ type, schema }: AnyEvent, data: unknown): unknown {
  return schema === undefined ? data : parseWith(schema, data, `data of event '${type}'`)
}

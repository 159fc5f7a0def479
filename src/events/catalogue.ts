import { bounds } from '../core/bounds.js'
import type { Codec } from '../core/codec.js'
import { isMillraceError, MillraceError } from '../core/errors.js'
import { invalid } from '../core/options.js'
import { newId } from '../system/ids.js'
import { type AnyEvent, checkedData, type EventDraft, type RecordedEvent } from './define-event.js'
import { tooNew, unknownType } from './errors.js'
import type { NewEvent, StoredEvent } from './log.js'
import { abandon, isThenable } from './thenable.js'

/** An event as it is stored: its data has the form of the day when it was appended. */
export interface ArchivedEvent extends RecordedEvent {
  /** Version of the data's form; 0 when its definition had none. No `upgrade` has been applied. */
  readonly schema: number
}

/** The definitions that a store knows; makes stored events of drafts, and events of stored ones. */
export class Catalogue {
  readonly #events = new Map<string, AnyEvent>()
  readonly #codec: Codec
  readonly #most: number

  constructor(codec: Codec, most: number) {
    this.#codec = codec
    this.#most = most
  }

  get types(): readonly string[] {
    return [...this.#events.keys()]
  }

  add(events: readonly AnyEvent[], field: string): void {
    for (const event of events) {
      const known = this.#events.get(event.type)
      if (known !== undefined && known !== event)
        throw invalid(field, event.type, 'one definition for each type, and there are two of this one')
      this.#events.set(event.type, event)
    }
  }

  knows(type: string): boolean {
    return this.#events.has(type)
  }

  has(event: AnyEvent): boolean {
    return this.#events.get(event.type) === event
  }

  /** What the schema makes of the data; a promise when it is asynchronous. */
  checked(draft: EventDraft, field: string): unknown {
    return checkedData(this.#definition(draft, field), draft.data)
  }

  encode({ type }: EventDraft, data: unknown, meta: string | undefined, id = newId(Date.now())): NewEvent {
    const schema = this.#events.get(type)?.evolution?.version ?? 0
    const text = data === undefined ? '' : this.#codec.encode(data, `data of event '${type}'`, this.#most)
    return { id, type, schema, data: text, meta }
  }

  encodeMeta(meta: unknown): string | undefined {
    return meta === undefined ? undefined : this.#codec.encode(meta, 'meta', bounds.metadataBytes)
  }

  decodeMeta(text: string | undefined): unknown {
    return text === undefined ? undefined : this.#codec.decode(text)
  }

  encodeState(state: unknown): string {
    return this.#codec.encode(state, 'snapshot', snapshotBytes)
  }

  decodeState(text: string): unknown {
    return this.#codec.decode(text)
  }

  decode(stored: StoredEvent): RecordedEvent {
    const definition = this.#events.get(stored.type)
    if (definition === undefined) throw unknownType(stored.type, stored.stream)
    const { schema, data, ...event } = this.asStored(stored)
    return { ...event, data: upgraded(definition, data, schema) }
  }

  /** Of any type, in the form that it has. */
  asStored(stored: StoredEvent): ArchivedEvent {
    const { id, type, schema, stream, version, position, at, meta } = stored
    return {
      id,
      type,
      schema,
      data: this.#read(stored, stored.data),
      meta: meta === undefined ? undefined : this.#read(stored, meta),
      stream,
      version,
      position,
      at: new Date(at),
    }
  }

  #definition(draft: EventDraft, field: string): AnyEvent {
    if (typeof draft !== 'object' || typeof draft?.type !== 'string')
      throw invalid(field, draft, 'an event that a definition made, such as Deposited({ amount: 5 })')
    const definition = this.#events.get(draft.type)
    if (definition === undefined)
      throw invalid(
        `${field}.type`,
        draft.type,
        'a type that the store knows; give its definition in `events`',
      )
    return definition
  }

  #read({ id, stream, version }: StoredEvent, text: string): unknown {
    try {
      return text === '' ? undefined : this.#codec.decode(text)
    } catch (cause) {
      if (isMillraceError(cause)) throw cause
      throw new MillraceError(
        'STORE_CORRUPT',
        `event ${id}, version ${version} of stream '${stream}', cannot be decoded; was it written with another codec?`,
        { cause },
      )
    }
  }
}

/** The data in the definition's form. */
function upgraded({ type, evolution }: AnyEvent, data: unknown, from: number): unknown {
  const { version, upgrade } = evolution ?? { version: 0, upgrade: undefined }
  if (from > version) throw tooNew(type, from, version)
  if (upgrade === undefined || from === version) return data
  try {
    const now = upgrade(data, from)
    if (!isThenable(now)) return now
    abandon(now)
    throw new Error('it returned a promise')
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause)
    throw new MillraceError(
      'UPGRADE_FAILED',
      `upgrade of event '${type}' threw '${said}' for data of version ${from}; it must know every version before ${version}`,
      { field: 'upgrade', value: from, limit: version, cause },
    )
  }
}

const snapshotBytes = 16 * bounds.payloadBytes

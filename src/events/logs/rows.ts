import type { StoredEvent } from '../log.js'

/** An event as tables have it. */
export type EventRow = Omit<StoredEvent, 'meta'> & { readonly meta: string | null }

export function toEvent({
  position,
  id,
  stream,
  version,
  at,
  type,
  schema,
  data,
  meta,
}: EventRow): StoredEvent {
  return { position, id, stream, version, at, type, schema, data, meta: meta ?? undefined }
}

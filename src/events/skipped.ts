import { bounds } from '../core/bounds.js'
import { describeFailure } from '../core/failure.js'
import type { Failure } from '../core/job.js'
import type { Projection } from './define-projection.js'
import { derivedId } from './derived-id.js'
import type { EventRef } from './listeners.js'
import type { StoredEvent, StreamPage } from './log.js'
import type { PartLease } from './part-lease.js'
import type { EventRuntime } from './runtime.js'
import { skippedStream } from './stream-name.js'

/** An event that a projection was told to leave after it had failed again and again. */
export interface SkippedEvent {
  /** Of the projection. A later one has tried the event anew. */
  readonly generation: number
  readonly event: EventRef
  readonly failure: Failure
  readonly skippedAt: Date
}

/** Kept in the log itself, in the transaction that moves the checkpoint past it. */
export async function setAside(
  runtime: EventRuntime,
  { name }: Projection,
  lease: PartLease,
  stored: StoredEvent,
  error: unknown,
): Promise<void> {
  const { generation } = lease.ref
  const { id: eventId, type, stream, version, position } = stored
  const event = { id: eventId, type, stream, version, position }
  const failure = describeFailure(name, error)
  const id = derivedId('skipped', name, generation, eventId)
  const data = JSON.stringify({ generation, event, failure })
  const record = { id, type: '$skipped', schema: 0, data, meta: undefined }
  const transaction = await runtime.log.begin()
  try {
    await runtime.log.append(
      [{ id, stream: skippedStream(name), expected: 'any', events: [record] }],
      transaction.tx,
    )
    await lease.advance(position, transaction.tx)
    await transaction.commit()
  } catch (failed) {
    await transaction.rollback()
    throw failed
  }
  lease.moved(position)
  runtime.listeners.emit('skipped', { projection: name, event, error })
}

/** The newest first. */
export async function* readSkipped(
  runtime: EventRuntime,
  projection: string,
): AsyncGenerator<SkippedEvent, void, undefined> {
  await runtime.ready()
  const stream = skippedStream(projection)
  let after = Number.MAX_SAFE_INTEGER
  for (;;) {
    const page: StreamPage = await runtime.log.stream({ stream, after, backwards: true, limit: bounds.page })
    for (const { data, at, version } of page.events) {
      yield { ...(JSON.parse(data) as Omit<SkippedEvent, 'skippedAt'>), skippedAt: new Date(at) }
      after = version
    }
    if (page.events.length < bounds.page) return
  }
}

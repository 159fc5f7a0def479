import { isMillraceError, MillraceError, queueFull, show } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { InsertResult } from '../core/store.js'
import type { Message } from './message.js'
import type { Publisher, PublishResult } from './publisher.js'
import type { Kind, Row } from './store.js'

/** Where rows of one kind go. */
export interface Target {
  readonly kind: Kind
  readonly name: string
  /** Rejects when nothing is known of any of them. */
  deliver(rows: readonly Row[], signal: AbortSignal): Promise<readonly Delivery[]>
}

/** `refused`: the row is at fault; `failed`: the target is. */
export type Delivery = 'done' | { readonly status: 'refused' | 'failed'; readonly error: unknown }

/** As much of a Millrace as a relay needs. */
export interface JobTarget {
  insert(jobs: readonly NewJob[]): Promise<readonly InsertResult[]>
}

/** A job has its row's id, so one that is handed on twice is added once. */
export function jobsTo(mill: JobTarget): Target {
  return { kind: 'job', name: 'millrace', deliver }

  async function deliver(rows: readonly Row[], signal: AbortSignal): Promise<Delivery[]> {
    const read = rows.map(jobOf)
    const jobs = read.filter((job) => !(job instanceof Error)) as NewJob[]
    const added = (jobs.length === 0 ? [] : await insertAll(jobs, signal)).values()
    return read.map((job) =>
      job instanceof Error ? { status: 'refused', error: job } : (added.next().value as Delivery),
    )
  }

  async function insertAll(jobs: readonly NewJob[], signal: AbortSignal): Promise<Delivery[]> {
    signal.throwIfAborted()
    try {
      return (await mill.insert(jobs)).map((result, i) => deliveryOf(jobs[i] as NewJob, result))
    } catch (error) {
      if (isTheTargets(error)) throw error
      if (jobs.length === 1) return [{ status: 'refused', error }]
      // One of them is at fault: each by itself shows which.
      const deliveries: Delivery[] = []
      for (const job of jobs) deliveries.push(...(await insertAll([job], signal)))
      return deliveries
    }
  }
}

/** What is not said to be the job's fault is the store's. */
function isTheTargets(error: unknown): boolean {
  return !isMillraceError(error) || !faults.has(error.code)
}

const faults: ReadonlySet<string> = new Set([
  'INVALID_OPTION',
  'INVALID_DELAY',
  'INVALID_INPUT',
  'PAYLOAD_TOO_LARGE',
  'PAYLOAD_NOT_SERIALISABLE',
])

/** A full queue takes the job later, even one that drops what it cannot hold: whoever wrote the row was promised the job. */
function deliveryOf({ queue }: NewJob, { status, overflow }: InsertResult): Delivery {
  if (status !== 'full' && status !== 'shed') return 'done'
  return { status: 'failed', error: queueFull(queue, overflow ?? { depth: 0, limit: 0 }) }
}

/** Its delay counts from when it was written. */
function jobOf({ id, body, age }: Row): NewJob | Error {
  try {
    const job = JSON.parse(body) as NewJob
    return { ...job, delay: job.runAt === undefined ? Math.max(0, Math.round(job.delay - age)) : 0 }
  } catch (cause) {
    return new Error(`the row of job '${id}' is damaged: it is no JSON`, { cause })
  }
}

export function messagesTo(publisher: Publisher): Target {
  return {
    kind: 'message',
    name: publisher.name,
    async deliver(rows, signal) {
      await publisher.open?.()
      const results: unknown = await publisher.publish(rows.map(messageOf), signal)
      if (!Array.isArray(results)) throw notResults(publisher, results)
      return results.map((result) => deliveryOfMessage(publisher, result))
    },
  }
}

/** A publisher may be anybody's. */
function deliveryOfMessage(publisher: Publisher, result: PublishResult): Delivery {
  if (result === 'published') return 'done'
  if (result?.status === 'refused' || result?.status === 'failed') return result
  throw notResults(publisher, result)
}

function notResults({ name }: Publisher, given: unknown): MillraceError {
  return new MillraceError(
    'INVALID_OUTCOME',
    `publisher '${name}' answered ${show(given)}; expected for each message 'published', or { status, error } with the status 'refused' or 'failed'`,
  )
}

function messageOf({ id, topic, key, body, headers, at }: Row): Message {
  return { id, topic: topic ?? '', key, body, headers: headersOf(headers), at }
}

function headersOf(text: string | undefined): Record<string, string> {
  return text === undefined ? {} : JSON.parse(text)
}

/**
 * Appends in batches: one round trip and one commit for all calls of one turn of the event loop. The streams of a batch are
 * locked in the order of their names, and each append is accepted or refused by itself.
 */
import { MillraceError } from '../../../core/errors.js'
import type { Connection } from '../../../databases/postgres/connection.js'
import { sqlState } from '../../../databases/postgres/errors.js'
import type { Query } from '../../../databases/postgres/tx/library.js'
import { gather } from '../../../system/turn.js'
import type { Append, AppendResult } from '../../log.js'
import { slotOf } from '../../slot.js'
import { takenId } from '../expected.js'
import type { InSchema } from './in-schema.js'

interface Call {
  readonly appends: readonly Append[]
  readonly resolve: (results: AppendResult[]) => void
  readonly reject: (error: unknown) => void
}

interface Answer {
  readonly taken: string | null
  readonly answers: string | null
}

export class Appender {
  readonly #connection: Connection
  readonly #now: () => string
  readonly #onAppended: () => void
  readonly #text: string
  readonly #within: string
  #waiting: Call[] = []

  /** `now`: empty for the server's clock. `onAppended`: after a commit. */
  constructor(connection: Connection, inSchema: InSchema, now: () => string, onAppended: () => void) {
    this.#connection = connection
    this.#now = now
    this.#onAppended = onAppended
    this.#text = inSchema('SELECT taken, answers FROM {schema}.append_{set}($1, $2, $3, $4)')
    this.#within = inSchema(
      'SELECT taken, answers, pg_current_xact_id()::text AS xid FROM {schema}.append_{set}($1::text, $2::text::boolean, $3::text, $4::text)',
    )
  }

  append(appends: readonly Append[]): Promise<AppendResult[]> {
    if (appends.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) gather(() => this.#flush())
      this.#waiting.push({ appends, resolve, reject })
    })
  }

  /** In a transaction of others; with its id. */
  async within(query: Query, appends: readonly Append[]): Promise<{ results: AppendResult[]; xid: string }> {
    const results: AppendResult[] = []
    let xid = ''
    for (const run of runsOf(appends)) {
      const { names, events } = written(run)
      const [row] = await query(this.#within, [this.#now(), 'true', names, events])
      const answer = row as unknown as Answer & { xid: string }
      results.push(...understood(answer))
      xid = answer.xid
    }
    return { results, xid }
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const batch of batchesOf(waiting)) void this.#sendBatch(batch)
  }

  async #sendBatch(batch: readonly Call[]): Promise<void> {
    try {
      const results = await this.#send(
        batch.flatMap(({ appends }) => appends),
        false,
      )
      for (const { appends, resolve } of batch) resolve(results.splice(0, appends.length))
    } catch (error) {
      // One of them has an id that is taken, or a text that cannot be kept: callers that share nothing but a turn must not
      // fail together.
      const isOnes =
        sqlState(error) === uniqueViolation || sqlState(error)?.startsWith(dataException) === true
      if (isOnes) for (const call of batch) await this.#sendCarefully(call)
      else for (const { reject } of batch) reject(error)
    }
  }

  async #sendCarefully({ appends, resolve, reject }: Call): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const results: AppendResult[] = []
        for (const run of runsOf(appends)) results.push(...(await this.#send(run, true)))
        return resolve(results)
      } catch (error) {
        // Whoever has the id may have committed between the look and the write.
        if (sqlState(error) !== uniqueViolation || tries === mostTries) return reject(error)
      }
    }
  }

  async #send(appends: readonly Append[], careful: boolean): Promise<AppendResult[]> {
    const { names, events } = written(appends)
    const statement = { name: 'millrace_append', text: this.#text }
    const { rows } = await this.#connection.query<Answer>(statement, [this.#now(), careful, names, events])
    const results = understood(rows[0] as Answer)
    if (results.some((result) => result.status === 'appended' && !result.repeated)) this.#onAppended()
    return results
  }
}

const uniqueViolation = '23505'
const dataException = '22'
const mostTries = 3

/** What goes to the server at a time: timers go on meanwhile, and no message is much larger than the largest events. */
const atATime = { events: 1_000, text: 4 * 1024 * 1024 }

/** Calls that have an id in common do not go together. */
function batchesOf(calls: readonly Call[]): Call[][] {
  const batches: Call[][] = []
  let ids = new Set<string>()
  let text = Number.POSITIVE_INFINITY
  for (const call of calls) {
    const own = call.appends.flatMap(({ events }) => events.map(({ id }) => id))
    const more = textOf(call)
    if (
      text + more > atATime.text ||
      ids.size + own.length > atATime.events ||
      own.some((id) => ids.has(id))
    ) {
      batches.push([])
      ids = new Set()
      text = 0
    }
    batches.at(-1)?.push(call)
    for (const id of own) ids.add(id)
    text += more
  }
  return batches
}

function textOf({ appends }: Call): number {
  let size = 0
  for (const { events } of appends)
    for (const { data, meta = '' } of events) size += data.length + meta.length
  return size
}

/** Cut where an id comes again: whether that one has been there before shows only when the first one is written. */
function runsOf(appends: readonly Append[]): Append[][] {
  const runs: Append[][] = []
  let ids = new Set<string>()
  for (const append of appends) {
    if (runs.length === 0 || ids.has(append.id)) {
      runs.push([])
      ids = new Set()
    }
    runs.at(-1)?.push(append)
    for (const { id } of append.events) ids.add(id)
  }
  return runs
}

/** As append.sql takes them. */
function written(appends: readonly Append[]): { names: string; events: string } {
  const isNew = new Map<string, boolean>()
  for (const { stream, expected } of appends) {
    const creates = expected === 'any' || expected === 'none' || expected === 0
    isNew.set(stream, creates || isNew.get(stream) === true)
  }
  // By code units, as every process does it.
  const names = [...isNew.keys()].sort()
  const numbers = new Map(names.map((name, i) => [name, i + 1]))
  return {
    names: JSON.stringify({
      names,
      creates: names.map((name) => isNew.get(name)),
      slots: names.map(slotOf),
      which: appends.map(({ stream }) => numbers.get(stream)),
      ids: appends.map(({ id }) => id),
      expected: appends.map(({ expected }) =>
        typeof expected === 'number' ? expected : expectations[expected],
      ),
      sizes: appends.map(({ events }) => events.length),
    }),
    events: JSON.stringify(
      appends.flatMap(({ events }, i) => events.map((event, nth) => ({ n: i + 1, nth: nth + 1, ...event }))),
    ),
  }
}

const expectations = { none: 0, any: -1, exists: -2 } as const

function understood({ taken, answers }: Answer): AppendResult[] {
  if (taken !== null) throw takenId(taken)
  if (answers === null)
    throw new MillraceError('STORE_FAILED', 'the server did not say what became of an append')
  const numbers = answers.split(',').map(Number)
  return Array.from({ length: numbers.length / 4 }, (_, i) => {
    const [kind, version = 0, position = 0, at = 0] = numbers.slice(4 * i, 4 * i + 4)
    if (kind === 0) return { status: 'conflict', version }
    return { status: 'appended', version, position, at, repeated: kind === 2 }
  })
}

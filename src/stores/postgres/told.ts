import type { ClaimedJob } from '../../core/job.js'
import type { ToldJobs as Jobs } from '../page/heads.js'
import { separator } from '../page/separator.js'

/** What the server tells of jobs that were claimed; see tell.sql. */
export interface Told {
  readonly seqs: string | null
  readonly kinds: string
  readonly created: string
  readonly limits: string
  readonly ids: string
  readonly inputs: string
  readonly extras: string | null
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The same, job by job. */
export class ToldJobs implements Jobs {
  readonly seqs: readonly number[]
  readonly kinds: readonly number[]
  readonly #created: readonly number[]
  readonly #limits: readonly (readonly number[])[]
  readonly #ids: readonly string[]
  readonly #inputs: readonly string[]
  readonly #extras: ReadonlyMap<number, Extra> | undefined

  constructor({ seqs, kinds, created, limits, ids, inputs, extras }: Told) {
    if (seqs === null) {
      this.seqs = this.kinds = this.#created = this.#limits = this.#ids = this.#inputs = []
      return
    }
    this.seqs = seqs.split(',').map(Number)
    this.kinds = kinds.split(',').map(Number)
    this.#created = created.split(',').map(Number)
    this.#limits = limits.split(',').map((pair) => pair.split(':').map(Number))
    this.#ids = ids.split(separator)
    this.#inputs = inputs.split(separator)
    this.#extras = readExtras(extras)
  }

  kind(i: number): number {
    return one(this.kinds, i)
  }

  id(i: number): string {
    return this.#ids[i] as string
  }

  /** Writes it into a job that has all the rest. */
  tell(i: number, to: ClaimedJob, token: string): void {
    const job = to as Mutable<ClaimedJob>
    const [maxAttempts, maxCrashes] = one(this.#limits, i) as [number, number]
    job.id = this.id(i)
    job.token = token
    job.input = this.#inputs[i] as string
    job.createdAt = one(this.#created, i)
    job.readyAt = job.createdAt
    job.maxAttempts = maxAttempts
    job.maxCrashes = maxCrashes
    const extra = this.#extras?.get(i)
    if (extra === undefined) return
    const { overrides, tags, metadata, rest } = extra
    job.attempt = (rest.attempt ?? 0) + 1
    job.crashes = rest.crashes ?? 0
    job.readyAt = rest.readyAt ?? job.createdAt
    job.retryDelay = rest.retryDelay ?? 0
    job.overrides = overrides ?? undefined
    job.tags = tags
    job.metadata = metadata ?? undefined
  }
}

/** A list has a value for each job, or one for all. */
function one<T>(list: readonly T[], i: number): T {
  return (list.length === 1 ? list[0] : list[i]) as T
}

interface Extra {
  readonly overrides: string | null
  readonly tags: readonly string[] | undefined
  readonly metadata: string | null
  readonly rest: { attempt?: number; crashes?: number; readyAt?: number; retryDelay?: number }
}

function readExtras(text: string | null): Map<number, Extra> | undefined {
  if (text === null) return undefined
  type Row = [number, string | null, string | null, string | null, string | null]
  return new Map(
    (JSON.parse(text) as Row[]).map(([i, overrides, tags, metadata, rest]) => [
      i,
      {
        overrides,
        tags: tags === null ? undefined : (JSON.parse(tags) as string[]),
        metadata,
        rest: JSON.parse(rest ?? '{}') as Extra['rest'],
      },
    ]),
  )
}

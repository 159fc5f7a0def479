/**
 * What has to do with nothing but itself is spread over all shards; all else is at home, the first one, where it is as atomic as it
 * is without shards. A job's id says where it is spread to.
 */
import type { NewJob } from '../../../core/job.js'
import type { Held, LeasedJob, RetryChange, Settlement } from '../../../core/store.js'

/**
 * Whether nobody else minds where it is: it has no relations, and an id that nobody can have given to a job which has some.
 */
export function isLonely(job: NewJob): boolean {
  return (
    job.fresh === true &&
    job.family === undefined &&
    job.traffic === undefined &&
    job.dedupe === undefined &&
    job.guard === undefined &&
    job.unwinds !== true
  )
}

/** FNV-1a, over the end: that is what ids that are made together differ in. */
export function shardOf(id: string, shards: number): number {
  let hash = 0x811c9dc5
  for (let i = Math.max(0, id.length - 16); i < id.length; i++)
    hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 15)) >>> 0) % shards
}

/** Jobs only ever move home: whoever goes there last misses none. */
export function homeLast<T>(shards: readonly T[]): T[] {
  return [...shards.slice(1), ...shards.slice(0, 1)]
}

/** How a job ends, or what it has done, that others get to know of. */
export function endsAmongOthers({ outcome, inserts }: Settlement): boolean {
  const { hold, crashed, wait } = outcome
  return addsSome(inserts) || hold > 0 || crashed || (wait !== undefined && waitsForOthers(wait))
}

function waitsForOthers({ signals, children, fans }: NonNullable<Settlement['outcome']['wait']>): boolean {
  return signals.length > 0 || children || fans.length > 0
}

export function actsAmongOthers({ inserts, closes = [] }: Held): boolean {
  return addsSome(inserts) || closes.length > 0
}

function addsSome(inserts: readonly NewJob[] | undefined): boolean {
  return inserts !== undefined && inserts.length > 0
}

/** Whether a replay gives a job relations. */
export function relates({ traffic, dedupe, guard }: RetryChange): boolean {
  return (traffic ?? dedupe ?? guard ?? undefined) !== undefined
}

/** A token with the shard that it is for. */
export function tokenAt(shard: number, token: string): string {
  return `${shard}!${token}`
}

/** The shard that a token is for, and what it is there. One that nobody made here is for home, where it opens nothing. */
export function tokenParts(token: string, shards: number): readonly [shard: number, inner: string] {
  const [, shard, inner = ''] = /^(0|[1-9]\d?)!(.*)$/s.exec(token) ?? []
  return shard !== undefined && Number(shard) < shards ? [Number(shard), inner] : [0, '']
}

/** Those whose tokens are for a shard, as it knows them. */
export function partOf<T extends LeasedJob>(shard: number, jobs: readonly T[], shards: number): T[] {
  return jobs.flatMap((job) => {
    const [at, token] = tokenParts(job.token, shards)
    return at === shard ? [{ ...job, token }] : []
  })
}

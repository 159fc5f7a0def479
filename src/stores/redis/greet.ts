import { MillraceError } from '../../core/errors.js'
import { isReply, NoRoot, ReadOnlyServer } from './errors.js'
import type { Line } from './line.js'

/** The layout of the keys. A store of a later one was written by a newer Millrace. */
const format = 4

/**
 * Refuses a server that is a replica or does not have this shard, and makes the key that every script names: without
 * it a cluster could not tell that a slot is only half there. It counts what was made; so where something is left without
 * it, another one would count from the start.
 */
export async function greetOrLeave(line: Line, root: string, shards: number): Promise<void> {
  try {
    await greet(line, root, shards)
  } catch (error) {
    line.sever(error)
    throw error
  }
}

async function greet(line: Line, root: string, shards: number): Promise<void> {
  const [found, rest, replication] = await line.ask([
    ['HMGET', root, 'format', 'shards'],
    ['EXISTS', `${root}:queues`],
    ['INFO', 'replication'],
  ])
  if (isReply(found)) throw found
  // Where INFO is forbidden, the first write finds out.
  if (/^role:slave/m.test(String(replication))) throw new ReadOnlyServer()
  const known = found as Made
  if (known[0] === null && rest === 1) throw new NoRoot()
  const made = known.includes(null) ? await make(line, root, shards) : known
  checkFormat(made[0])
  checkShards(made[1], shards)
}

/** The layout, and over how many shards the store is spread. */
type Made = readonly [format: string | null, shards: string | null]

async function make(line: Line, root: string, shards: number): Promise<Made> {
  const replies = await line.ask([
    ['HSETNX', root, 'format', format],
    ['HSETNX', root, 'shards', shards],
    ['HMGET', root, 'format', 'shards'],
  ])
  const failed = replies.find(isReply)
  if (failed !== undefined) throw failed
  return replies[2] as Made
}

function checkFormat(found: unknown): void {
  if (Number(found) === format) return
  throw new MillraceError(
    'STORE_REFUSED',
    `the store has format ${found} and this Millrace knows ${format}; upgrade Millrace, or choose another prefix`,
    { field: 'format', value: found, limit: format },
  )
}

/** Jobs would not be found by a process that takes the store for smaller or larger than it is. */
function checkShards(found: unknown, shards: number): void {
  if (Number(found) === shards) return
  throw new MillraceError(
    'STORE_REFUSED',
    `the store was made with shards: ${found}, and this process has shards: ${shards}; use ${found}, or another prefix`,
    { field: 'shards', value: shards, limit: Number(found) },
  )
}

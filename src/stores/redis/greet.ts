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
export async function greetOrLeave(line: Line, root: string): Promise<void> {
  try {
    await greet(line, root)
  } catch (error) {
    line.sever(error)
    throw error
  }
}

async function greet(line: Line, root: string): Promise<void> {
  const [found, rest, replication] = await line.ask([
    ['HGET', root, 'format'],
    ['EXISTS', `${root}:queues`],
    ['INFO', 'replication'],
  ])
  if (isReply(found)) throw found
  // Where INFO is forbidden, the first write finds out.
  if (/^role:slave/m.test(String(replication))) throw new ReadOnlyServer()
  if (found === null && rest === 1) throw new NoRoot()
  checkFormat(found ?? (await made(line, root)))
}

async function made(line: Line, root: string): Promise<unknown> {
  const [set, found] = await line.ask([
    ['HSETNX', root, 'format', format],
    ['HGET', root, 'format'],
  ])
  if (isReply(set)) throw set
  if (isReply(found)) throw found
  return found
}

function checkFormat(found: unknown): void {
  if (Number(found) === format) return
  throw new MillraceError(
    'STORE_REFUSED',
    `the store has format ${found} and this Millrace knows ${format}; upgrade Millrace, or choose another prefix`,
    { field: 'format', value: found, limit: format },
  )
}

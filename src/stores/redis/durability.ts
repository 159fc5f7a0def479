/** Who must have a write before it is acknowledged, besides the server that did it. */
import { type Duration, milliseconds } from '../../core/duration.js'
import { integer, invalid, noUnknownIn } from '../../core/options.js'
import { isReply, NotConfirmed } from './errors.js'
import type { Command } from './line.js'

/**
 * - `'none'`: the server itself; what it loses then depends on how it is set up, and is told when the store opens.
 * - `wait`: so many replicas have it in memory.
 * - `waitaof`: the server (`local: 1`) and so many replicas have it in their files on disk. Needs version 7.2.
 *
 * `timeout` is how long one attempt waits for them. @default '1s', or half of `commandTimeout` when that is less
 */
export type Durability =
  | 'none'
  | { readonly wait: number; readonly timeout?: Duration }
  | { readonly waitaof: { readonly local: 0 | 1; readonly replicas: number }; readonly timeout?: Duration }

export interface CompiledDurability {
  readonly command: 'WAIT' | 'WAITAOF'
  readonly local: number
  readonly replicas: number
  readonly timeout: number
}

/** `answer`: after so many milliseconds of silence the connection would be given up. */
export function compileDurability(raw: Durability, answer: number): CompiledDurability | undefined {
  if (raw === 'none') return undefined
  if (typeof raw !== 'object' || raw === null || 'wait' in raw === 'waitaof' in raw)
    throw invalid('durability', raw, "'none', { wait: 1 } or { waitaof: { local: 1, replicas: 0 } }")
  const timeout = patience(raw.timeout, answer)
  if ('wait' in raw) {
    noUnknownIn('durability', raw, ['wait', 'timeout'])
    const replicas = integer(raw.wait, 'durability.wait', 1, mostReplicas)
    return { command: 'WAIT', local: 0, replicas, timeout }
  }
  noUnknownIn('durability', raw, ['waitaof', 'timeout'])
  noUnknownIn('durability.waitaof', raw.waitaof, ['local', 'replicas'])
  const local = integer(raw.waitaof.local, 'durability.waitaof.local', 0, 1)
  const least = 1 - local // none at all would be 'none'
  const replicas = integer(raw.waitaof.replicas, 'durability.waitaof.replicas', least, mostReplicas)
  return { command: 'WAITAOF', local, replicas, timeout }
}

const mostReplicas = 100
const usualMs = 1_000

function patience(raw: Duration | undefined, answer: number): number {
  const most = Math.floor(answer / 2)
  if (raw === undefined) return Math.min(usualMs, most)
  return integer(milliseconds(raw, 'durability.timeout'), 'durability.timeout', 1, most)
}

/**
 * Sent right behind a script. Since 7.2 a connection waits for what it wrote itself, and a script that is done again
 * may write nothing, so there is always a write before: one that a full server allows too, and that changes nothing for
 * a hundred years.
 */
export function confirming(root: string, durability: CompiledDurability): Command[] {
  const { command, local, replicas, timeout } = durability
  const counts = command === 'WAIT' ? [replicas] : [local, replicas]
  return [
    ['EXPIRE', root, hundredYears],
    [command, ...counts, timeout],
  ]
}

const hundredYears = 100 * 365 * 86_400

/** Throws when the answers to `confirming` say that too few have it. */
export function checkConfirmed(replies: readonly unknown[], { local, replicas }: CompiledDurability): void {
  const failed = replies.find(isReply)
  if (failed !== undefined) throw failed
  const counts = [replies.at(-1)].flat().map(Number)
  const [here, there] = counts.length > 1 ? counts : [0, counts[0]]
  if ((here ?? 0) < local) throw new NotConfirmed('it is not in the file of the server yet')
  if ((there ?? 0) < replicas) throw new NotConfirmed(`${there} of ${replicas} replicas have it`)
}

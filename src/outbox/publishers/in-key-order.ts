import type { Message } from '../message.js'
import type { PublishResult } from '../publisher.js'
import { Results } from './results.js'

/**
 * Publishes one message of a key at a time, and up to `atMost` in all: so none is overtaken by a later one of its key,
 * whatever becomes of it. `publishOne` rejects when nothing is known of its message, because the connection is lost; then
 * no other is begun.
 */
export async function inKeyOrder(
  messages: readonly Message[],
  atMost: number,
  publishOne: (message: Message) => Promise<PublishResult>,
): Promise<PublishResult[]> {
  const results = new Results(messages)
  const lines = linesOf(messages)
  const next = lines.values()
  let lost: { readonly error: unknown } | undefined

  const walk = async (line: Line) => {
    for (const [index, message] of line) {
      if (lost !== undefined || results.isHeldBack(index)) return
      try {
        results.set(index, await publishOne(message))
      } catch (error) {
        lost ??= { error }
      }
    }
  }
  const walkers = Array.from({ length: Math.min(atMost, lines.length) }, async () => {
    for (const line of next) await walk(line)
  })
  await Promise.all(walkers)
  return results.all(lost)
}

/** Messages of one key with their places in the batch; one without a key is a line of its own. */
type Line = [index: number, message: Message][]

function linesOf(messages: readonly Message[]): Line[] {
  const lines = new Map<string | symbol, Line>()
  for (const [index, message] of messages.entries()) {
    const key = message.key ?? Symbol()
    const line = lines.get(key)
    if (line === undefined) lines.set(key, [[index, message]])
    else line.push([index, message])
  }
  return [...lines.values()]
}

import { type KindRow, kindIn, type QueueRow } from '../../page/kinds.js'
import type { Page } from '../../page/page.js'
import { readQueues } from '../queue-flags.js'
import type { Question } from './question.js'

interface Known {
  /** Changes with them; see sheetsChanged in common.lua. */
  readonly name: string
  readonly queues: readonly QueueRow[]
  readonly kinds: readonly KindRow[]
}

type Reply = readonly [name: string, queues?: readonly string[], kinds?: readonly string[]]

/** Queues and kinds, kept from page to page: the server tells them anew when they have changed. */
export class KnownKinds {
  #known: Known = { name: '', queues: [], kinds: [] }

  sheets(page: Page): Question {
    // What is known by now, whatever is learnt until the answer comes.
    const before = this.#known
    return {
      name: 'sheets',
      values: [before.name],
      take: (reply: Reply) => {
        const { queues, kinds } = this.#learn(reply) ?? before
        page.putSheet('queues', queues)
        page.putSheet('kinds', kinds)
      },
    }
  }

  #learn([name, queuePairs, kindPairs]: Reply): Known | undefined {
    if (queuePairs === undefined || kindPairs === undefined) return undefined
    const queues = readQueues(queuePairs).sort(byNum)
    this.#known = { name, queues, kinds: readKinds(queues, kindPairs) }
    return this.#known
  }
}

function readKinds(queues: readonly QueueRow[], pairs: readonly string[]): KindRow[] {
  const nums = new Map(queues.map(({ name, num }) => [name, num]))
  const rows: KindRow[] = []
  for (let i = 0; i < pairs.length; i += 2) {
    const { queue, name, lane } = kindIn(pairs[i + 1] as string)
    rows.push({ num: Number(pairs[i]), queue: nums.get(queue) as number, name, lane })
  }
  return rows.sort(byNum)
}

function byNum(a: { readonly num: number }, b: { readonly num: number }): number {
  return a.num - b.num
}

import type { Page } from '../../page/page.js'
import type { Trail } from '../shards/parcel.js'
import type { Question } from './question.js'

/** What is asked of jobs that move from one shard to another; see shards/homecoming.ts. */
export const movingBooks = {
  parcel: (page: Page, ids: readonly string[]): Question[] => [
    {
      name: 'fields',
      values: ['parcels', ...ids],
      take(texts: readonly (string | null)[]) {
        for (const [i, id] of ids.entries()) page.putRow('parcel', id, texts[i] ?? null)
      },
    },
  ],
  receipt: (page: Page, ids: readonly string[]): Question[] => [
    {
      name: 'scores',
      values: ['receipts', ...ids],
      take(scores: readonly (string | null)[]) {
        for (const [i, id] of ids.entries()) page.putRow('receipt', id, scores[i] ?? null)
      },
    },
  ],
  trail: (page: Page, seqs: readonly string[]): Question[] =>
    seqs.flatMap((seq) => {
      let logs: readonly string[] = []
      return [
        {
          name: 'logs',
          values: [seq],
          take: (lines: readonly string[]) => {
            logs = lines
          },
        },
        {
          name: 'steps',
          values: [seq],
          take: (steps: readonly string[]) => {
            const trail: Trail = { logs, steps: inOrder(steps) }
            page.putRow('trail', seq, trail)
          },
        },
      ]
    }),
}

/** Steps as they were written: a letter, their number, a colon, and what they are. */
export function inOrder(steps: readonly string[]): string[] {
  const numbered = steps.map((text) => {
    const colon = text.indexOf(':')
    return { n: Number(text.slice(1, colon)), state: text.slice(colon + 1) }
  })
  return numbered.sort((a, b) => a.n - b.n).map(({ state }) => state)
}

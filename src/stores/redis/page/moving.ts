import type { Page } from '../../page/page.js'
import type { Question } from './question.js'
import { inOrder } from './steps.js'

/** What is kept beside a job's row, as texts. */
export interface Trail {
  readonly logs: readonly string[]
  readonly steps: readonly string[]
}

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

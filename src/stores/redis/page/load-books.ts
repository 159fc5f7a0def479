/** Things that are looked up by their keys. */
import type { JobQuery } from '../../../core/store.js'
import { childIn, linkKey } from '../../page/links.js'
import type { Page } from '../../page/page.js'
import { selecting } from '../select.js'
import { handleOf } from '../ticket.js'
import { type JobReply, type ReadJob, readJob } from './job-reply.js'
import type { KnownKinds } from './known-kinds.js'
import { readLinkText } from './link-text.js'
import { loansQuestion } from './loans.js'
import { movingBooks } from './moving.js'
import type { Question } from './question.js'
import {
  type LinksReply,
  putGates,
  putJob,
  putJobs,
  putLinks,
  readWorker,
  type WorkerReply,
} from './replies.js'
import { inOrder } from './steps.js'
import { readGate } from './tallies.js'

export const books: Record<string, (page: Page, keys: readonly string[], known: KnownKinds) => Question[]> = {
  ...movingBooks,
  job: (page, ids) => [
    {
      name: 'jobs',
      values: ids.map(handleOf),
      take(jobs: readonly JobReply[]) {
        for (const id of ids) page.putRow('job', id, null)
        for (const reply of jobs) putJob(page, readJob(reply))
      },
    },
  ],
  place: (page, ids) => [
    {
      name: 'positionsOf',
      values: ids.map(handleOf),
      take(seqs: readonly (number | null)[]) {
        ids.forEach((id, i) => {
          const seq = seqs[i]
          page.putRow('place', id, typeof seq === 'number' ? { id, seq } : null)
        })
      },
    },
  ],
  // Parents with their links: whoever looks at a child is about to look at them.
  kin: (page, ids) => [
    {
      name: 'kin',
      values: ids.flatMap((id) => [handleOf(id), id]),
      take([parents, links]: readonly [readonly JobReply[], LinksReply]) {
        for (const id of ids) page.children.delete(id)
        putJobs(page, parents)
        putLinks(page, links)
      },
    },
  ],
  // Links of parents that have been read before, by their ids and those of their children.
  tie: (page, keys) => {
    const ties = keys.map((key) => key.split('\n') as [string, string])
    return [
      {
        name: 'ties',
        values: ties.flatMap(([parent, child]) => [handleOf(parent), child]),
        take(links: LinksReply) {
          for (const [parent, child] of ties) {
            const row = page.peek<ReadJob>('job', parent)
            if (row) page.putRow('link', linkKey(row.seq, child), null)
          }
          putLinks(page, links)
        },
      },
    ]
  },
  ancestors: (page, ids) => [
    {
      name: 'ancestors',
      values: ids.map(handleOf),
      take(found: readonly string[]) {
        for (const id of found) page.ancestors.add(id)
      },
    },
  ],
  worker: (page, ids) => [
    {
      name: 'workers',
      values: ids,
      take(workers: readonly WorkerReply[]) {
        for (const id of ids) page.putRow('worker', id, null)
        for (const reply of workers) page.putRow('worker', reply[0], readWorker(reply))
      },
    },
  ],
  // Comes with the job; one that is missing has been settled since.
  leaseOf: (page, ids) => {
    for (const id of ids) page.putRow('leaseOf', id, null)
    return []
  },
  held: (page, tokens) =>
    tokens.map((token) => ({
      name: 'held',
      values: [token],
      take(jobs: readonly JobReply[]) {
        const rows = putJobs(page, jobs)
        page.putRow(
          'held',
          token,
          rows.map(({ id }) => id),
        )
      },
    })),
  newKind: (page, keys, known) => [
    ...keys
      .filter((key) => key.includes(':'))
      .map((key) => ({ name: 'kind', values: [key], gives: true as const, take() {} })),
    known.sheets(page),
  ],
  newQueue: (page, names, known) => [
    ...names.map((name) => ({ name: 'queue', values: [name], gives: true as const, take() {} })),
    known.sheets(page),
  ],
  gate: (page, keys) => [
    {
      name: 'gatesAt',
      values: keys,
      take(rows: readonly (string | null)[]) {
        keys.forEach((key, i) => {
          const row = rows[i]
          page.putRow('gate', key, row == null ? null : readGate(row))
        })
      },
    },
  ],
  loan: (page, queues) => [loansQuestion(page, queues)],
  gateNum: (page, nums) => [
    {
      name: 'gatesByNumber',
      values: nums,
      take(rows: readonly string[]) {
        for (const num of nums) page.putRow('gateNum', num, null)
        putGates(page, rows)
      },
    },
  ],
  link: (page, keys) => {
    const parents = new Set(keys.map((key) => key.slice(0, key.indexOf('\n'))))
    const byParent = Array.from(parents, (parent) => ({
      parent,
      own: keys.filter((key) => key.startsWith(`${parent}\n`)),
    }))
    return byParent.map(({ parent, own }) => ({
      name: 'fields',
      values: [`link:${parent}`, ...own.map(childIn)],
      take(rows: readonly (string | null)[]) {
        own.forEach((key, i) => {
          const row = rows[i]
          page.putRow('link', key, row == null ? null : readLinkText(Number(parent), childIn(key), row))
        })
      },
    }))
  },
  openSteps: (page, seqs) =>
    seqs.map((seq) => ({
      name: 'openSteps',
      values: [seq],
      take: (steps: readonly string[]) => page.putRow('openSteps', seq, inOrder(steps)),
    })),
  select: (page, queries) =>
    queries.map((text) => {
      const query = JSON.parse(text) as JobQuery
      const { question, found } = selecting(query, page)
      return {
        ...question,
        take: (answer: never) => {
          const { ids, rows, cursor } = found(answer)
          for (const row of rows) if (!page.peek('job', row.id)) putJob(page, row)
          page.putRow('select', text, { ids, cursor })
        },
      }
    }),
  holder: records('holder'),
  guard: records('guard'),
  schedule: records('schedule'),
  mail: records('mail'),
}

/** Things that are just looked up by their key. */
function records(book: string) {
  return (page: Page, keys: readonly string[]): Question[] => [
    {
      name: 'fields',
      values: [book, ...keys],
      take(rows: readonly (string | null)[]) {
        keys.forEach((key, i) => {
          const row = rows[i]
          page.putRow(book, key, row == null ? null : JSON.parse(row))
        })
      },
    },
  ]
}

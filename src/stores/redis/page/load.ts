import type { JobQuery } from '../../../core/store.js'
import type { Dedupe } from '../../../core/traffic/dedupe.js'
import { newestWins } from '../../../core/traffic/dedupe.js'
import { holderKey } from '../../ledger/dedupe.js'
import type { CountRow, KindRow, QueueRow } from '../../page/kinds.js'
import { childIn, type LinkRow, linkKey, linksNeed } from '../../page/links.js'
import type { Needs, WindowNeed } from '../../page/needs.js'
import type { Page } from '../../page/page.js'
import type { GateRow } from '../../page/places.js'
import type { WorkerRow } from '../../page/workers.js'
import { selecting } from '../select.js'
import { handleOf, sortable } from '../ticket.js'
import { readHeads } from './head.js'
import { type JobReply, type ReadJob, readJob } from './job-reply.js'
import { readLinkText } from './link-text.js'
import { loansQuestion } from './loans.js'
import { inOrder, movingBooks } from './moving.js'
import type { Question } from './question.js'
import { readGate } from './tallies.js'

/** What has to be asked for all that a try has missed. */
export function questionsFor(page: Page, needs: Needs): Question[] {
  const questions: Question[] = []
  for (const [book, keys] of needs.keys) questions.push(...(books[book]?.(page, [...keys]) ?? unknown(book)))
  for (const need of needs.windows.values())
    questions.push(windows[need.shelf]?.(page, need) ?? unknown(need.shelf))
  for (const sheet of needs.sheets) questions.push(...(sheets[sheet]?.(page) ?? unknown(sheet)))
  if (needs.positions > 0) questions.push(positions(page, needs.positions))
  return questions
}

function unknown(name: string): never {
  throw new Error(`nothing is known of ${name}`)
}

const books: Record<string, (page: Page, keys: readonly string[]) => Question[]> = {
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
  leaseOf: (page, ids) =>
    ids.map((id) => {
      page.putRow('leaseOf', id, null)
      return { name: 'root', values: ['format'], take() {} }
    }),
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
  newKind: (page, keys) => [
    ...keys
      .filter((key) => key.includes(':'))
      .map((key) => ({ name: 'kind', values: [key], gives: true as const, take() {} })),
    ...kindSheets(page),
  ],
  newQueue: (page, names) => [
    ...names.map((name) => ({ name: 'queue', values: [name], gives: true as const, take() {} })),
    ...kindSheets(page),
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

const windows: Record<string, (page: Page, need: WindowNeed) => Question> = {
  state: (page, need) =>
    jobsFrom(page, need, 'shelf', [need.scope[0] as number, rankOf(need), positionOf(need), need.count]),
  line: (page, need) =>
    jobsFrom(page, need, 'line', [
      ...need.scope,
      need.from.rank === 0 ? Math.max(-1, need.from.seq) : -1,
      need.count,
    ]),
  place: (page, need) => heads(page, need),
  waiter: (page, need) => ({
    name: 'waiters',
    values: [need.scope[0] as string, need.from.seq, need.count],
    take(found: readonly (readonly [string, JobReply])[]) {
      const rows = found.map(([n, reply]) => ({ ...putJobs(page, [reply])[0], n: Number(n) }))
      page.putWindow(need, { rows, isComplete: rows.length < need.count })
    },
  }),
  links: (page, need) => ({
    name: 'links',
    values: [...need.scope, need.count],
    take: (texts: readonly string[]) => putLinkWindow(page, need, texts),
  }),
  // Of a parent whose position is not known.
  linksOf: (page, need) => ({
    name: 'linksOf',
    values: [handleOf(need.scope[0] as string), need.scope[1] as string, need.count],
    take(found: readonly [seq: number, texts: readonly string[]] | null) {
      const [id, child] = need.scope as [string, string]
      page.putRow('place', id, found && { id, seq: found[0] })
      if (found) putLinkWindow(page, linksNeed(found[0], child, need.count), found[1])
    },
  }),
  gateDue: (page, need) => recordsFrom(page, need, 'gatedue', 'gate'),
  gateFading: (page, need) => recordsFrom(page, need, 'gatefading', 'gate'),
  holder: (page, need) => recordsFrom(page, need, 'holders', 'holder'),
  guard: (page, need) => recordsFrom(page, need, 'guards', 'guard'),
  look: (page, need) => recordsFrom(page, need, 'looks', 'schedule'),
  told: (page, need) => recordsFrom(page, need, 'tolds', 'schedule'),
  mailLine: (page, need) => numbered(page, need, `mailline:${need.scope[0]}`),
  mailTime: (page, need) => recordsFrom(page, need, 'mailtime', 'mail'),
  spreading: (page, need) => numbered(page, need, 'spreading'),
}

function rankOf({ from }: WindowNeed): string {
  return from.rank === Number.NEGATIVE_INFINITY ? '-inf' : String(from.rank)
}

function positionOf({ from }: WindowNeed): string | number {
  return from.rank === Number.NEGATIVE_INFINITY ? '' : from.seq
}

function recordsFrom(page: Page, need: WindowNeed, set: string, book: string): Question {
  const { from, count } = need
  const isStart = from.rank === Number.NEGATIVE_INFINITY
  return ordered(page, need, 'records', [set, book, rankOf(need), isStart ? '' : sortable(from.seq), count])
}

/** Mail in the order in which it came. */
function numbered(page: Page, need: WindowNeed, set: string): Question {
  const { seq } = need.from
  return ordered(page, need, 'records', [set, 'mail', seq, sortable(seq), need.count])
}

type HeadsReply = readonly [
  tickets: readonly string[],
  turns: string,
  waits: string,
  jobs: readonly JobReply[],
  gates: readonly string[],
]

/** Jobs that have to pass gates, with those; all of what is special. */
function heads(page: Page, need: WindowNeed): Question {
  const place = Number(need.scope[0])
  return {
    name: 'place',
    values: [place, rankOf(need), positionOf(need), need.count, page.isWhole ? 1 : 0],
    take([tickets, turns, waits, jobs, gates]: HeadsReply) {
      putGates(page, gates)
      for (const row of putJobs(page, jobs)) page.entire.set(row.seq, row)
      const rows = readHeads(place, tickets, turns.split(','), waits.split(','))
      page.putWindow(need, { rows, isComplete: rows.length < need.count })
    },
  }
}

function ordered(page: Page, need: WindowNeed, name: string, values: readonly (string | number)[]): Question {
  return {
    name,
    values,
    take(texts: readonly string[]) {
      const rows = texts.map((text) => JSON.parse(text) as unknown)
      page.putWindow(need, { rows, isComplete: rows.length < need.count })
    },
  }
}

function jobsFrom(
  page: Page,
  need: WindowNeed,
  name: string,
  values: readonly (string | number)[],
): Question {
  return {
    name,
    values,
    take(jobs: readonly JobReply[]) {
      const rows = putJobs(page, jobs)
      page.putWindow(need, { rows, isComplete: jobs.length < need.count })
    },
  }
}

/** A row that was read before stays: what was made of it goes by it. */
function putJobs(page: Page, jobs: readonly JobReply[]): ReadJob[] {
  return jobs.map((reply) => {
    const row = readJob(reply)
    const known = page.peek<ReadJob>('job', row.id)
    if (known) return known
    putJob(page, row)
    return row
  })
}

function putJob(page: Page, row: ReadJob): void {
  const [, , , token, worker] = row.read
  page.putRow('job', row.id, row)
  if (token !== '') page.putRow('leaseOf', row.id, worker === '' ? null : { token, worker })
  if (row.rest?.includes('"parents":[{')) page.children.add(row.id)
}

/** Of each the child and its text. */
function putLinkWindow(page: Page, need: WindowNeed, texts: readonly string[]): void {
  const rows: LinkRow[] = []
  for (let i = 0; i < texts.length; i += 2)
    rows.push(readLinkText(need.scope[0] as number, texts[i] as string, texts[i + 1] as string))
  page.putWindow(need, { rows, isComplete: rows.length < need.count })
}

/** Of each the position of the parent, the child and its text. */
type LinksReply = readonly (string | number)[]

function putLinks(page: Page, links: LinksReply): void {
  for (let i = 0; i < links.length; i += 3) {
    const row = readLinkText(Number(links[i]), links[i + 1] as string, links[i + 2] as string)
    page.putRow('link', linkKey(row.parent, row.child), row)
  }
}

function putGates(page: Page, rows: readonly string[]): void {
  for (const text of rows) {
    const row = readGate(text)
    page.putRow('gateNum', String(row.num), row)
  }
}

type WorkerReply = readonly [
  id: string,
  expires: string,
  latest: string,
  leases: readonly (readonly [token: string, worker: string, at: string, left: string])[],
]

function readWorker([id, expires, latest, leases]: WorkerReply): WorkerRow {
  return {
    id,
    num: 0,
    expires_at: Number(expires),
    latest: latest || null,
    leases: leases.map(([token, worker, at, left]) => ({
      token,
      worker,
      at: Number(at),
      undone: Number(left),
      spans: undefined,
    })),
  }
}

const sheets: Record<string, (page: Page) => Question[]> = {
  queues: (page) => kindSheets(page),
  kinds: (page) => kindSheets(page),
  number: (page) => [number(page)],
  counts: (page) => [counts(page, 'counts')],
  running: (page) => [counts(page, 'running'), ...kindSheets(page)],
  lines: (page) => [
    {
      name: 'all',
      values: ['lines'],
      take(pairs: readonly string[]) {
        const rows = everySecond(pairs).map((text) => JSON.parse(text) as { num: number })
        page.putSheet(
          'lines',
          rows.sort((a, b) => a.num - b.num),
        )
      },
    },
  ],
  activeGates: (page) => [
    {
      name: 'activeGates',
      take: (rows: readonly string[]) =>
        page.putSheet(
          'activeGates',
          rows.map((text) => JSON.parse(text) as GateRow),
        ),
    },
  ],
  doomed: (page) => [{ name: 'doomed', take: (ids: readonly string[]) => page.putSheet('doomed', ids) }],
  keysOfRunning: (page) => [
    {
      name: 'special',
      take: (jobs: readonly JobReply[]) => page.putSheet('keysOfRunning', keysOf(page, jobs)),
    },
  ],
  lapsed: (page) => [
    {
      name: 'lapsed',
      take: (workers: readonly WorkerReply[]) => page.putSheet('lapsed', workers.map(readWorker)),
    },
  ],
}

export function number(page: Page): Question {
  return {
    name: 'root',
    values: ['number'],
    take: (last: string) => page.putSheet('number', { last: Number(last) }),
  }
}

type CountReply = readonly [kind: string, name: string, counts: readonly string[]]

function counts(page: Page, name: string): Question {
  return {
    name: 'counts',
    take(rows: readonly CountReply[]) {
      page.putSheet(name, new Map(rows.map((row) => [Number(row[0]), countRow(row)])))
    },
  }
}

function countRow([kind, , pairs]: CountReply): CountRow {
  const counted = countsIn(pairs)
  const of = (state: string) => counted.get(state) ?? 0
  return {
    kind: Number(kind),
    pending: of('pending'),
    running: of('running'),
    completed: of('completed'),
    dead: of('dead'),
    cancelled: of('cancelled'),
  }
}

export function countsIn(pairs: readonly string[]): Map<string, number> {
  const counted = new Map<string, number>()
  for (let i = 0; i < pairs.length; i += 2) counted.set(pairs[i] as string, Number(pairs[i + 1]))
  return counted
}

export function kindSheets(page: Page): Question[] {
  return [
    {
      name: 'all',
      values: ['queues'],
      take(pairs: readonly string[]) {
        const rows: QueueRow[] = []
        for (let i = 0; i < pairs.length; i += 2) {
          const [num, paused, limited] = (pairs[i + 1] as string).split(',')
          rows.push({
            num: Number(num),
            name: pairs[i] as string,
            paused: paused === '1',
            traffic: limited === '1',
          })
        }
        page.putSheet(
          'queues',
          rows.sort((a, b) => a.num - b.num),
        )
      },
    },
    {
      name: 'all',
      values: ['kindnames'],
      take(pairs: readonly string[]) {
        const queues = new Map(page.sheet<readonly QueueRow[]>('queues').map(({ name, num }) => [name, num]))
        const rows: KindRow[] = []
        for (let i = 0; i < pairs.length; i += 2) {
          const [lane, queue = '', name = ''] = (pairs[i + 1] as string).split(':')
          rows.push({ num: Number(pairs[i]), queue: queues.get(queue) as number, name, lane: Number(lane) })
        }
        page.putSheet(
          'kinds',
          rows.sort((a, b) => a.num - b.num),
        )
      },
    },
  ]
}

function everySecond(pairs: readonly string[]): string[] {
  return pairs.filter((_, i) => i % 2 === 1)
}

function keysOf(page: Page, jobs: readonly JobReply[]): ReadonlySet<string> {
  const names = new Map(page.sheet<readonly KindRow[]>('kinds').map(({ num, name }) => [num, name]))
  const keys = new Set<string>()
  for (const reply of jobs) {
    const { kind, rest } = readJob(reply)
    const { dedupe } = JSON.parse(rest ?? '{}') as { dedupe?: Dedupe }
    if (dedupe !== undefined && newestWins(dedupe.mode))
      keys.add(holderKey(names.get(kind) as string, dedupe.key))
  }
  return keys
}

function positions(page: Page, count: number): Question {
  return {
    name: 'positions',
    gives: true,
    values: [count],
    take(last: number) {
      for (let i = last - count + 1; i <= last; i++) page.positions.push(i)
    },
  }
}

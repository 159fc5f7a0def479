import type { JobFilter, JobQuery } from '../../../core/store.js'
import type { Dedupe } from '../../../core/traffic/dedupe.js'
import { newestWins } from '../../../core/traffic/dedupe.js'
import { Json, type Value } from '../../../databases/postgres/literal.js'
import { holderKey } from '../../ledger/dedupe.js'
import { type JobRow, stateNumbers } from '../../page/job-row.js'
import { type CountRow, type KindRow, kindIn, type QueueRow } from '../../page/kinds.js'
import { childIn, type LinkRow, linkKey } from '../../page/links.js'
import type { Needs, WindowNeed } from '../../page/needs.js'
import type { Page } from '../../page/page.js'
import type { GateRow, LineRow } from '../../page/places.js'
import type { LeaseRow, WorkerRow } from '../../page/workers.js'
import { found, selection } from '../select.js'
import { type PackedHeads, unpackHeads } from './packed-heads.js'

/** Positions come in blocks of this many. */
const blockSize = 128

/** A statement of load.sql with its values, and what becomes of its rows. */
export interface Question {
  readonly statement: string
  readonly values?: readonly Value[]
  take(rows: readonly never[]): void
}

/** What has to be asked for all that a try has missed. */
export function questionsFor(page: Page, needs: Needs): Question[] {
  const questions: Question[] = []
  for (const [book, keys] of needs.keys) questions.push(...(books[book]?.(page, [...keys]) ?? unknown(book)))
  for (const need of needs.windows.values())
    questions.push(...(need.shelf === 'place' ? heads(page, need) : windowOf(page, need)))
  for (const sheet of needs.sheets) questions.push(...(sheets[sheet]?.(page) ?? unknown(sheet)))
  if (needs.positions > 0) questions.push(positions(page, needs.positions))
  return questions
}

function unknown(name: string): never {
  throw new Error(`nothing is known of ${name}`)
}

const books: Record<string, (page: Page, keys: readonly string[]) => Question[]> = {
  job: (page, ids) => [
    {
      statement: 'byIds',
      values: [ids],
      take(rows: readonly JobRow[]) {
        for (const id of ids) page.putRow('job', id, null)
        for (const row of rows) putJob(page, row)
      },
    },
  ],
  place: (page, ids) => [
    {
      statement: 'placesOf',
      values: [ids],
      take(rows: readonly { id: string; seq: number }[]) {
        for (const id of ids) page.putRow('place', id, null)
        for (const row of rows) page.putRow('place', row.id, row)
      },
    },
  ],
  // By their positions, with their parents. Those that do not run any more are looked for in all places then, by their ids.
  running: (page, positions) => {
    const seqs = positions.map(Number)
    return [
      {
        statement: 'running',
        values: [seqs],
        take: (rows: readonly JobRow[]) =>
          putJobs(
            page,
            rows.filter(({ seq }) => page.isLeased(seq)),
          ),
      },
      {
        statement: 'parentsOfRunning',
        values: [seqs],
        take: (rows: readonly JobRow[]) => putJobs(page, rows),
      },
      {
        statement: 'linksToRunning',
        values: [seqs],
        take: (rows: readonly LinkRow[]) => putLinks(page, rows),
      },
    ]
  },
  // Parents with their links: whoever looks at a child is about to look at them.
  kin: (page, ids) => [
    {
      statement: 'parentsOf',
      values: [ids],
      take(rows: readonly JobRow[]) {
        for (const id of ids) page.children.delete(id)
        putJobs(page, rows)
      },
    },
    { statement: 'linksTo', values: [ids], take: (rows: readonly LinkRow[]) => putLinks(page, rows) },
  ],
  // Links of parents that have been read before, by their ids and those of their children.
  tie: (page, keys) => {
    const ties = keys.map((key) => key.split('\n') as [string, string])
    return [
      {
        statement: 'linksBetween',
        values: [ties.map(([parent]) => parent), ties.map(([, child]) => child)],
        take(rows: readonly LinkRow[]) {
          for (const [parent, child] of ties) {
            const row = page.peek<JobRow>('job', parent)
            if (row) page.putRow('link', linkKey(row.seq, child), null)
          }
          putLinks(page, rows)
        },
      },
    ]
  },
  ancestors: (page, ids) => [
    {
      statement: 'ancestors',
      values: [ids],
      take(rows: readonly { id: string }[]) {
        for (const { id } of rows) page.ancestors.add(id)
      },
    },
  ],
  worker: (page, ids) => workers(page, ids),
  leaseOf: (page, ids) => [
    {
      statement: 'leaseOf',
      values: [ids],
      take(rows: readonly (LeaseRow & { id: string })[]) {
        for (const id of ids) page.putRow('leaseOf', id, null)
        for (const row of rows) page.putRow('leaseOf', row.id, row)
      },
    },
  ],
  held: (page, tokens) =>
    tokens.map((token) => ({
      statement: 'held',
      values: [token],
      take(rows: readonly JobRow[]) {
        putJobs(page, rows)
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
      .map((key) => {
        const { queue, name, lane } = kindIn(key)
        return { statement: 'newKind', values: [queue, name, lane], take() {} }
      }),
    ...kindSheets(page),
  ],
  newQueue: (page, names) => [
    ...names.map((name) => ({ statement: 'newQueue', values: [name], take() {} })),
    ...kindSheets(page),
  ],
  gate: (page, keys) => [
    {
      statement: 'gates',
      values: [new Json(keys.map((key) => splitGate(key)))],
      take(rows: readonly GateRow[]) {
        for (const key of keys) page.putRow('gate', key, null)
        for (const row of rows) page.putRow('gate', `${row.scope}\n${row.owner}\n${row.name}`, row)
      },
    },
  ],
  gateNum: (page, nums) => [
    {
      statement: 'gatesByNum',
      values: [nums.map(Number)],
      take(rows: readonly GateRow[]) {
        for (const num of nums) page.putRow('gateNum', num, null)
        putGates(page, rows)
      },
    },
  ],
  link: (page, keys) => [
    {
      statement: 'linksOf',
      values: [new Json(keys.map((key) => splitLink(key)))],
      take(rows: readonly LinkRow[]) {
        for (const key of keys) page.putRow('link', key, null)
        for (const row of rows) page.putRow('link', linkKey(row.parent, row.child), row)
      },
    },
  ],
  openSteps: (page, seqs) => [
    {
      statement: 'openSteps',
      values: [seqs.map(Number)],
      take(rows: readonly { seq: number; state: string }[]) {
        for (const seq of seqs) {
          const own = rows.filter((row) => row.seq === Number(seq))
          page.putRow(
            'openSteps',
            seq,
            own.map(({ state }) => state),
          )
        }
      },
    },
  ],
  select: (page, queries) =>
    queries.map((text) => {
      const query = JSON.parse(text) as JobQuery
      return {
        ...selection(query, kindsOf(page, query.filter)),
        take: (rows: readonly never[]) => page.putRow('select', text, found(query, rows)),
      }
    }),
  holder: records('holder', 'holders'),
  guard: records('guard', 'guards'),
  schedule: records('schedule', 'schedules'),
  mail: records('mail', 'mail'),
}

function kindsOf(page: Page, { queue, name }: JobFilter): number[] | undefined {
  if (queue === undefined && name === undefined) return undefined
  const queues = page
    .sheet<readonly QueueRow[]>('queues')
    .filter((row) => queue === undefined || row.name === queue)
  const nums = new Set(queues.map(({ num }) => num))
  return page
    .sheet<readonly KindRow[]>('kinds')
    .filter((row) => nums.has(row.queue) && (name === undefined || row.name === name))
    .map(({ num }) => num)
}

/** The rows of a book that are just looked up by their key. */
function records(book: string, statement: string) {
  return (page: Page, keys: readonly string[]): Question[] => [
    {
      statement,
      values: [keys],
      take(rows: readonly { key: string }[]) {
        for (const key of keys) page.putRow(book, key, null)
        for (const row of rows) page.putRow(book, row.key, row)
      },
    },
  ]
}

function workers(page: Page, ids: readonly string[]): Question[] {
  let found: readonly Omit<WorkerRow, 'leases'>[] = []
  return [
    {
      statement: 'workers',
      values: [ids],
      take(rows: readonly WorkerRow[]) {
        found = rows
      },
    },
    {
      statement: 'leases',
      values: [ids],
      take(leases: readonly LeaseRow[]) {
        for (const id of ids) page.putRow('worker', id, null)
        for (const row of found) page.putRow('worker', row.id, withLeases(row, leases))
      },
    },
  ]
}

function withLeases(row: Omit<WorkerRow, 'leases'>, leases: readonly LeaseRow[]): WorkerRow {
  return { ...row, leases: leases.filter(({ worker }) => worker === row.id) }
}

const windows: Record<string, (page: Page, need: WindowNeed) => Question> = {
  state: (page, need) =>
    jobsFrom(page, need, need.scope[0] === stateNumbers.completed ? 'completed' : 'byState', [
      ...need.scope,
      need.from.rank,
      need.from.seq,
      need.count,
    ]),
  line: (page, need) =>
    jobsFrom(page, need, 'inLine', [
      ...need.scope,
      Math.max(-1, need.from.rank === 0 ? need.from.seq : -1),
      need.count,
    ]),
  waiter: (page, need) => jobsFrom(page, need, 'waitingFor', [...need.scope, need.from.seq, need.count]),
  links: (page, need) => ordered(page, need, 'linksAfter', [...need.scope, need.count]),
  gateDue: (page, need) => ordered(page, need, 'gateDue', [need.from.rank, need.from.seq, need.count]),
  gateFading: (page, need) => ordered(page, need, 'gateFading', [need.from.rank, need.from.seq, need.count]),
  holder: (page, need) => ordered(page, need, 'holdersByRank', [need.from.rank, need.from.seq, need.count]),
  guard: (page, need) => ordered(page, need, 'guardsByRank', [need.from.rank, need.from.seq, need.count]),
  look: (page, need) => ordered(page, need, 'schedulesByLook', [need.from.rank, need.from.seq, need.count]),
  told: (page, need) => ordered(page, need, 'schedulesByTold', [need.from.rank, need.from.seq, need.count]),
  mailLine: (page, need) => ordered(page, need, 'mailLine', [...need.scope, need.from.seq, need.count]),
  mailTime: (page, need) => ordered(page, need, 'mailTime', [need.from.rank, need.from.seq, need.count]),
  spreading: (page, need) => ordered(page, need, 'spreading', [need.from.seq, need.count]),
}

function windowOf(page: Page, need: WindowNeed): Question[] {
  return [windows[need.shelf]?.(page, need) ?? unknown(need.shelf)]
}

/** Jobs that have to pass gates, with those gates; all of its row only of what is special. */
function heads(page: Page, need: WindowNeed): Question[] {
  const place = Number(need.scope[0])
  const values = [place, need.from.rank, need.from.seq, need.count]
  return [
    { statement: 'gatesOfHeads', values, take: (rows: readonly GateRow[]) => putGates(page, rows) },
    {
      statement: 'inPlace',
      values: [...values, page.isWhole],
      take(rows: readonly JobRow[]) {
        putJobs(page, rows)
        for (const row of rows) page.entire.set(row.seq, row)
      },
    },
    {
      statement: 'heads',
      values,
      take([packed]: readonly PackedHeads[]) {
        const rows = unpackHeads(place, packed as PackedHeads)
        page.putWindow(need, { rows, isComplete: rows.length < need.count })
      },
    },
  ]
}

function putGates(page: Page, rows: readonly GateRow[]): void {
  for (const row of rows) page.putRow('gateNum', String(row.num), row)
}

function ordered(page: Page, need: WindowNeed, statement: string, values: readonly Value[]): Question {
  return {
    statement,
    values,
    take(rows) {
      page.putWindow(need, { rows, isComplete: rows.length < need.count })
    },
  }
}

function jobsFrom(page: Page, need: WindowNeed, statement: string, values: readonly Value[]): Question {
  return {
    statement,
    values,
    take(rows: readonly JobRow[]) {
      putJobs(page, rows)
      page.putWindow(need, { rows, isComplete: rows.length < need.count })
    },
  }
}

/** A row that was read before stays: what was made of it goes by it. */
function putJobs(page: Page, rows: readonly JobRow[]): void {
  for (const row of rows) if (!page.peek('job', row.id)) putJob(page, row)
}

function putLinks(page: Page, rows: readonly LinkRow[]): void {
  for (const row of rows) page.putRow('link', linkKey(row.parent, row.child), row)
}

function putJob(page: Page, row: JobRow): void {
  page.putRow('job', row.id, row)
  if ((row.special || row.child_of !== null) && row.rest?.includes('"parents":[{')) page.children.add(row.id)
}

const sheets: Record<string, (page: Page) => Question[]> = {
  queues: (page) => kindSheets(page),
  kinds: (page) => kindSheets(page),
  number: (page) => [sheet(page, 'number', (rows) => rows[0])],
  counts: (page) => [counts(page, 'counts')],
  // What is about to start or end is waited for, and what has come since is read again.
  running: (page) => [{ statement: 'barrier', take() {} }, counts(page, 'running'), ...kindSheets(page)],
  lines: (page) => [sheet<LineRow>(page, 'lines')],
  activeGates: (page) => [sheet<GateRow>(page, 'activeGates')],
  doomed: (page) => [sheet(page, 'doomed', (rows: readonly { id: string }[]) => rows.map(({ id }) => id))],
  keysOfRunning: (page) => [sheet(page, 'keysOfRunning', keysOf)],
  lapsed: (page) => {
    let found: readonly Omit<WorkerRow, 'leases'>[] = []
    return [
      {
        statement: 'lapsed',
        values: [page.now],
        take(rows: readonly WorkerRow[]) {
          found = rows
        },
      },
      {
        statement: 'lapsedLeases',
        values: [page.now],
        take(leases: readonly LeaseRow[]) {
          page.putSheet(
            'lapsed',
            found.map((row) => withLeases(row, leases)),
          )
        },
      },
    ]
  },
}

function counts(page: Page, name: string): Question {
  return {
    statement: 'counts',
    take: (rows: readonly CountRow[]) => page.putSheet(name, new Map(rows.map((row) => [row.kind, row]))),
  }
}

/** In this order: others may add some in between, and a kind has its queue from the start. */
export function kindSheets(page: Page): Question[] {
  return [sheet<KindRow>(page, 'kinds'), sheet<QueueRow>(page, 'queues')]
}

function sheet<Row>(
  page: Page,
  name: string,
  make: (rows: readonly Row[]) => unknown = (rows) => rows,
): Question {
  return { statement: name, take: (rows: readonly Row[]) => page.putSheet(name, make(rows)) }
}

function keysOf(rows: readonly { name: string; rest: string | null }[]): ReadonlySet<string> {
  const keys = new Set<string>()
  for (const { name, rest } of rows) {
    const { dedupe } = JSON.parse(rest ?? '{}') as { dedupe?: Dedupe }
    if (dedupe !== undefined && newestWins(dedupe.mode)) keys.add(holderKey(name, dedupe.key))
  }
  return keys
}

function positions(page: Page, count: number): Question {
  return {
    statement: 'positions',
    values: [Math.ceil(count / blockSize)],
    take(rows: readonly { first: number }[]) {
      for (const { first } of rows) for (let i = 0; i < blockSize; i++) page.positions.push(first + i)
    },
  }
}

function splitGate(key: string): { scope: string; owner: string; name: string } {
  const first = key.indexOf('\n')
  const second = key.indexOf('\n', first + 1)
  return { scope: key.slice(0, first), owner: key.slice(first + 1, second), name: key.slice(second + 1) }
}

function splitLink(key: string): { parent: number; child: string } {
  return { parent: Number(key.slice(0, key.indexOf('\n'))), child: childIn(key) }
}

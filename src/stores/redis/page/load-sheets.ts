/** Small tables that are read as a whole. */
import type { Dedupe } from '../../../core/traffic/dedupe.js'
import { newestWins } from '../../../core/traffic/dedupe.js'
import { holderKey } from '../../ledger/dedupe.js'
import type { CountRow, KindRow } from '../../page/kinds.js'
import type { Page } from '../../page/page.js'
import type { GateRow } from '../../page/places.js'
import { type JobReply, readJob } from './job-reply.js'
import type { KnownKinds } from './known-kinds.js'
import type { Question } from './question.js'
import { readWorker, type WorkerReply } from './replies.js'

export const sheets: Record<string, (page: Page, known: KnownKinds) => Question[]> = {
  queues: (page, known) => [known.sheets(page)],
  kinds: (page, known) => [known.sheets(page)],
  number: (page) => [number(page)],
  counts: (page) => [counts(page, 'counts')],
  running: (page, known) => [counts(page, 'running'), known.sheets(page)],
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

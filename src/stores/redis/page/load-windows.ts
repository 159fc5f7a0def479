/** Parts of what is in order, from a place on. */
import { linksNeed } from '../../page/links.js'
import type { WindowNeed } from '../../page/needs.js'
import type { Page } from '../../page/page.js'
import { handleOf, sortable } from '../ticket.js'
import { readHeads } from './head.js'
import type { JobReply } from './job-reply.js'
import type { Question } from './question.js'
import { type LinkTexts, putGates, putJobs, putLinkWindow } from './replies.js'

export const windows: Record<string, (page: Page, need: WindowNeed) => Question> = {
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
    take: (texts: LinkTexts) => putLinkWindow(page, need, texts),
  }),
  // Of a parent whose position is not known.
  linksOf: (page, need) => ({
    name: 'linksOf',
    values: [handleOf(need.scope[0] as string), need.scope[1] as string, need.count],
    take(found: readonly [seq: number, texts: LinkTexts] | null) {
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

/** What look.lua tells, and where it goes on the page. */
import { type LinkRow, linkKey } from '../../page/links.js'
import type { WindowNeed } from '../../page/needs.js'
import type { Page } from '../../page/page.js'
import { separator } from '../../page/separator.js'
import type { WorkerRow } from '../../page/workers.js'
import { type JobReply, type ReadJob, readJob } from './job-reply.js'
import { readLinkText } from './link-text.js'
import { readGate } from './tallies.js'

/** A row that was read before stays: what was made of it goes by it. */
export function putJobs(page: Page, jobs: readonly JobReply[]): ReadJob[] {
  return jobs.map((reply) => {
    const row = readJob(reply)
    const known = page.peek<ReadJob>('job', row.id)
    if (known) return known
    putJob(page, row)
    return row
  })
}

export function putJob(page: Page, row: ReadJob): void {
  const [, , , token, worker] = row.read
  page.putRow('job', row.id, row)
  if (token !== '') page.putRow('leaseOf', row.id, worker === '' ? null : { token, worker })
  if (row.rest?.includes('"parents":[{')) page.children.add(row.id)
}

/** Of each the child and its text; mostly all of them as one text. */
export type LinkTexts = string | readonly string[]

export function putLinkWindow(page: Page, need: WindowNeed, found: LinkTexts): void {
  const texts = typeof found !== 'string' ? found : found === '' ? [] : found.split(separator)
  const rows: LinkRow[] = []
  for (let i = 0; i < texts.length; i += 2)
    rows.push(readLinkText(need.scope[0] as number, texts[i] as string, texts[i + 1] as string))
  page.putWindow(need, { rows, isComplete: rows.length < need.count })
}

/** Of each the position of the parent, the child and its text. */
export type LinksReply = readonly (string | number)[]

export function putLinks(page: Page, links: LinksReply): void {
  for (let i = 0; i < links.length; i += 3) {
    const row = readLinkText(Number(links[i]), links[i + 1] as string, links[i + 2] as string)
    page.putRow('link', linkKey(row.parent, row.child), row)
  }
}

export function putGates(page: Page, rows: readonly string[]): void {
  for (const text of rows) {
    const row = readGate(text)
    page.putRow('gateNum', String(row.num), row)
  }
}

export type WorkerReply = readonly [
  id: string,
  expires: string,
  latest: string,
  leases: readonly (readonly [token: string, worker: string, at: string, left: string])[],
]

export function readWorker([id, expires, latest, leases]: WorkerReply): WorkerRow {
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

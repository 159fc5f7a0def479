import { bounds } from '../../core/bounds.js'
import { type JobRecord, type JobTrail, jobStates, type LogLine } from '../../core/job.js'
import { totalNames } from '../../core/lifecycle.js'
import type {
  Cause,
  Counts,
  GatePage,
  GateQuery,
  JobPage,
  JobQuery,
  LinkPage,
  LinkQuery,
  SchedulePage,
  ScheduleQuery,
} from '../../core/store.js'
import { gateRecord } from '../../core/traffic/gate.js'
import { links, sizeOf, startOf } from '../ledger/links.js'
import { toRecord } from '../ledger/record.js'
import { readSchedule } from '../page/codecs.js'
import { kindIn } from '../page/kinds.js'
import { linksOfNeed } from '../page/links.js'
import { Needs } from '../page/needs.js'
import type { GateRow } from '../page/places.js'
import { readStep } from '../page/steps.js'
import type { PagedTables } from '../page/tables.js'
import type { Desk } from './desk.js'
import { type JobReply, readJob } from './page/job-reply.js'
import { countsIn } from './page/load-sheets.js'
import type { Question } from './page/question.js'
import { inOrder } from './page/steps.js'
import { readGate } from './page/tallies.js'
import { readQueues } from './queue-flags.js'
import { handleOf } from './ticket.js'

/** What can be asked of the store; changes nothing. */
export class Reader {
  readonly #desk: Desk

  constructor(desk: Desk) {
    this.#desk = desk
  }

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    const needs = new Needs()
    for (const id of ids) needs.key('job', id)
    return this.#desk.look((tables) => records(tables, ids), { needs })
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    const [job] = await this.#answers<readonly JobReply[]>({ name: 'jobs', values: [handleOf(id)] })
    if (job === undefined) return undefined
    const { seq, rest } = readJob(job)
    const [logs, steps] = await this.#several<readonly string[]>([
      { name: 'logs', values: [seq] },
      { name: 'steps', values: [seq] },
    ])
    const { attempts = [] } = JSON.parse(rest ?? '{}') as Partial<JobTrail>
    return {
      attempts,
      logs: (logs ?? []).map((line) => JSON.parse(line) as LogLine),
      steps: inOrder(steps ?? []).map(readStep),
    }
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#desk.look((tables) => {
      const { entries, cursor } = tables.select(query)
      const jobs: JobRecord[] = []
      tables.each(entries, (entry) => void jobs.push(toRecord(tables, entry)))
      return { jobs, cursor }
    })
  }

  async counts(): Promise<Counts> {
    type Row = readonly [kind: string, name: string, counts: readonly string[]]
    const [rows = [], queues = []] = await this.#several<readonly unknown[]>([
      { name: 'counts' },
      { name: 'all', values: ['queues'] },
    ])
    const kinds = (rows as readonly Row[]).toSorted((a, b) => Number(a[0]) - Number(b[0]))
    return {
      kinds: kinds.map(([, kind, pairs]) => {
        const counted = countsIn(pairs)
        return {
          ...kindIn(kind),
          states: Object.fromEntries(jobStates.map((state) => [state, counted.get(state) ?? 0])) as never,
          totals: Object.fromEntries(
            totalNames.map((total) => [total, counted.get(`total_${total}`) ?? 0]),
          ) as never,
        }
      }),
      paused: readQueues(queues as readonly string[])
        .filter(({ paused }) => paused)
        .map(({ name }) => name)
        .sort(),
    }
  }

  async causes(): Promise<Cause[]> {
    type Row = readonly [cause: string, pairs: readonly string[]]
    const rows = await this.#answers<readonly Row[]>({ name: 'causes', values: [bounds.page] })
    const causes = rows.map(([cause, pairs]): Cause => {
      const fields = new Map<string, string>()
      for (let i = 0; i < pairs.length; i += 2) fields.set(pairs[i] as string, pairs[i + 1] as string)
      const text = (name: string) => fields.get(name) ?? ''
      return {
        cause,
        name: text('name'),
        message: text('message'),
        count: Number(text('count')),
        firstAt: Number(text('firstAt')),
        lastAt: Number(text('lastAt')),
        sample: text('sample'),
      }
    })
    return causes.sort((a, b) => b.lastAt - a.lastAt || (a.cause < b.cause ? -1 : 1))
  }

  async gates({ of, owner, names, limit, cursor }: GateQuery): Promise<GatePage> {
    const set = owner === undefined || owner === '' ? `gates:${of}` : `gates:${of}:${owner}`
    const found: GateRow[] = []
    let after = Number(cursor ?? 0)
    for (let looked = 0; looked < gateScans; looked++) {
      const rows = await this.#answers<readonly string[]>({
        name: 'gates',
        values: [set, after, bounds.page],
      })
      for (const text of rows) {
        const row = readGate(text)
        after = row.num
        const isListed = row.active || (of !== 'queue' && of !== 'job')
        if (isListed && (names === undefined || names.includes(row.name))) found.push(row)
      }
      if (rows.length < bounds.page || found.length > limit) break
    }
    const page = found.slice(0, limit)
    const gates = await this.#desk.look((tables, now) =>
      tables.books.ofRows(page).map((gate) => gateRecord(gate, now)),
    )
    return { gates, cursor: found.length > limit ? String(page.at(-1)?.num) : undefined }
  }

  async schedules({ names, limit, cursor }: ScheduleQuery): Promise<SchedulePage> {
    const wanted =
      names === undefined ? await this.#scheduleNames(cursor ?? '', limit + 1) : sorted(names, cursor)
    let texts: readonly (string | null)[] = []
    const now = await this.#desk.ask([
      {
        name: 'fields',
        values: ['schedule', ...wanted],
        take: (rows: readonly (string | null)[]) => {
          texts = rows
        },
      },
    ])
    const found = texts.flatMap((text) => (text === null ? [] : [readSchedule(stateIn(text))]))
    const schedules = found.slice(0, limit)
    return { schedules, cursor: found.length > limit ? schedules.at(-1)?.name : undefined, now }
  }

  links(query: LinkQuery): Promise<LinkPage> {
    const { parents } = query
    const needs = new Needs()
    const [at, child] = startOf(query)
    for (const id of parents) {
      if (id === parents[at]) needs.window(linksOfNeed(id, child, sizeOf(query)))
      else needs.key('place', id)
    }
    return this.#desk.look(
      (tables) => {
        if (parents.length > 1) readAhead(tables, query)
        return links((id) => tables.linksOf(id), query)
      },
      { needs },
    )
  }

  #scheduleNames(after: string, size: number): Promise<readonly string[]> {
    return this.#answers({ name: 'names', values: ['schedulenames', after, size] })
  }

  ask<T>(name: string, values: readonly (string | number)[]): Promise<T> {
    return this.#answers({ name, values })
  }

  async #answers<T>(question: Omit<Question, 'take'>): Promise<T> {
    const [answer] = await this.#several<T>([question])
    return answer as T
  }

  async #several<T>(questions: readonly Omit<Question, 'take'>[]): Promise<T[]> {
    const answers: T[] = []
    await this.#desk.ask(
      questions.map((question) => ({ ...question, take: (answer: never) => answers.push(answer) })),
    )
    return answers
  }
}

/** Pages of gates that one call looks at. */
const gateScans = 20

function stateIn(text: string): string {
  return (JSON.parse(text) as { state: string }).state
}

function sorted(names: readonly string[], cursor = ''): string[] {
  return [...new Set(names)].filter((name) => name > cursor).sort()
}

/**
 * The first links of some parents at once, as many as one call looks at: one after the other each parent would take a try. The
 * one that a call goes on with is asked for by itself.
 */
function readAhead(tables: PagedTables, query: LinkQuery): void {
  const { parents, prefix = '', cursor } = query
  const [at] = startOf(query)
  let found = 0
  for (let i = cursor === undefined ? at : at + 1; i < parents.length && found <= bounds.scan; i += atOnce)
    tables.each(parents.slice(i, i + atOnce), (id) => {
      found += tables.linksOf(id)?.after(prefix, sizeOf(query)).length ?? 0
    })
}

/** Parents whose links are read together. */
const atOnce = 25

function records(tables: PagedTables, ids: readonly string[]): (JobRecord | undefined)[] {
  const found: (JobRecord | undefined)[] = []
  tables.each(ids, (id) => {
    const entry = tables.jobs.get(id)
    found.push(entry === undefined ? undefined : toRecord(tables, entry))
  })
  return found
}
